"""Sessions: the catalogue's profiles made, and fits tested on halves of logs that they have not seen."""
