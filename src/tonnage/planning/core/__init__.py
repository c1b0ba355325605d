"""What all kinds of plan share: choices, ranking, rejections, break-even points, the header. How is a plan decided?"""
