"""Pages: a race, or a comparison of races, as one self-contained HTML file that opens without a network.

Templates (*.html.j2) show what Python makes of records. The only package that uses Bokeh, which is imported when a
page is made.
"""
