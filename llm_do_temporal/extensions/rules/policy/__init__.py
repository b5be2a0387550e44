"""Rules tried out before they hold: learned from past calls, which are judged again with the calls at their edge."""
