"""What we test Holdfast with, shipped so that you can test with it too."""
