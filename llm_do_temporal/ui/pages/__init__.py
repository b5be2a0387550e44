"""One module a page; each has a list `routes`, which `ui.app` puts together.

A handler finds the client in `request.app.state.client`, who asks in `request.state.user`, and a form that was sent,
checked, in `request.state.form`: the body has been read by then. Forms carry `{{ csrf_field() }}` and answer with a
redirect (303). Errors of the client become pages by themselves.
"""
