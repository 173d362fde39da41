"""What the engine did, in sentences for people: pure, rows in and words out. The CLI and the API show them."""
