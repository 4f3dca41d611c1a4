"""What a report shows, as plain values: one file a theme, no HTML."""
