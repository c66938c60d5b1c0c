"""The rules of devices and operators, as data, and the checks that apply them."""
