"""What must be resident, and does it fit?"""
