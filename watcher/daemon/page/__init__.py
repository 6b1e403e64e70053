"""What a person sees of the daemon: runs, incidents, nodes and runbooks as HTML, behind a login.

The server renders everything, so a text from a log is escaped in one place and the page works without scripts.
Scripts only fetch the same page again and put in what changed, and draw pictures.
"""
