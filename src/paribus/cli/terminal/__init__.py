"""How are arguments read, and answers shown?"""
