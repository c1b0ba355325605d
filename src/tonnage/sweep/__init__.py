"""How are many asked at once? A grid of questions, answered on many cores or machines, never twice."""
