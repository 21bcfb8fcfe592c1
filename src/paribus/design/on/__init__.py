"""Where are the runs of a study carried out?"""
