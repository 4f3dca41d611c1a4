"""What a report shows about the predictions of each task."""
