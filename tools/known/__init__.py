"""Operating points that every expert of the field knows, and whether predictions land inside their published range."""
