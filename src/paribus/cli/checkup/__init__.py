"""Is this machine fit for the work?"""
