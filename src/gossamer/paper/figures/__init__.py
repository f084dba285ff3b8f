"""One file per figure, named after it: its work, its picture, its two sentences, and the claims it bears on."""
