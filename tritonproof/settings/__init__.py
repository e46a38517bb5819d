"""What do the options ask for, and what do they make of models and cases?"""
