"""Files and programs kept within their folder: below all activities, knowing none of them."""
