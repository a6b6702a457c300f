"""Doctests of the documentation are those of its pages: settings, gallery and built pages are left out."""

collect_ignore_glob = ["conf.py", "check_offline.py", "gallery/*", "auto_gallery/*", "_build/*"]
