"""Pages: plain values become HTML, with no knowledge of runs, recipes or tasks.

`charts` draws, `blocks` are what a section is made of, `document` is the file around the sections,
`render` fills the templates that give all of these their HTML.
"""
