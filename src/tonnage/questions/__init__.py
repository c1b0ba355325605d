"""One folder a question: what people write becomes its request, its plan, its page. What two or more share is below."""
