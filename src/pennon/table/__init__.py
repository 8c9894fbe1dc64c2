"""Operations on the contents of one table. This package does not know any catalog.

Its modules use Lance directly; `operations` maps the requests of the namespace interface to them.
"""
