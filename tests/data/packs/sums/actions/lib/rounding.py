def up(value):
    return -int(-value // 1)
