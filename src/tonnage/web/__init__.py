"""How is it asked from a browser or by a program? One Litestar application: HTML and JSON at the same path.

No arithmetic: fields go through the planner's doors, answers come back as the nouns that command line and files show.
"""
