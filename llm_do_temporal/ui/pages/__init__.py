"""Pages, a module each; every module has a list `routes`, which `ui.app` puts together.

A handler finds the client in `client_of(request)`, the user in `request.state.user`, and a sent form, checked,
in `request.state.form`: the body has been read by then. Forms carry `{{ csrf_field() }}` and answer with a
redirect (303). Errors of the client become pages by themselves.
"""
