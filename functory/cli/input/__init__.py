"""Input from the command line: values, function fields, flow control."""
