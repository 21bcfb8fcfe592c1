"""What happens inside?"""
