"""How is it asked from a browser or by a program? One Litestar application: HTML and JSON at the same path.

No arithmetic: fields are read as the command line reads them, answers are the records that it and files show.
"""
