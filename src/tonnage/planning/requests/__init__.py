"""
How does what people write become a request? Texts, numbers and files in; a frozen struct of `domain.requests` out.

`reading` reads any request by the annotations of its struct; a module a question adds what no annotation can say:
which fields contradict, and what follows from several of them.
"""
