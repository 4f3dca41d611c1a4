"""The command that serves an ensemble over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from sparsemble.cli.app import app
from sparsemble.cli.options import (
    Code,
    Device,
    Saved,
    Threads,
    Unseen,
    progress_console,
    results_console,
    use_threads,
)


@app.command()
def serve(
    saved: Saved,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    unseen: Unseen = None,
    code: Code = None,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Predict over HTTP, with a page to try an ensemble in a browser.

    Example: sparsemble serve runs/digits --open
    """
    from sparsemble.runs.opening import open_ensemble
    from sparsemble.serving.needed import check_installed

    check_installed()
    from sparsemble.serving import service_of
    from sparsemble.serving.running import address_of, bound_socket, is_private, server_of

    use_threads(threads)
    ensemble = open_ensemble(saved, code or (), device)
    server = server_of(service_of(ensemble, saved.resolve().name, unseen=unseen))
    with bound_socket(host, port) as listening:
        address = address_of(listening)
        results_console().print(f"{saved} is served at {address} until Ctrl-C")
        if not is_private(listening):
            progress_console().print(
                f"--host {host}: anyone who reaches this machine can use it; nobody is asked for a "
                "password"
            )
        if open_page:
            import webbrowser

            webbrowser.open(address)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:  # which uvicorn raises again when all is done
            progress_console().print("ended")
