"""Code that runs inside a zygote or a child: it sets up the process and runs the function."""
