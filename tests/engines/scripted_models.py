"""Models that follow a script, one for each way that clients speak to a model. They prove the wiring, not what a real model would choose.

A script is a list of (end of a tool's name, arguments). Each request gets the call whose turn it is by the number of results that came back;
after the last one, the text of all results. `seen` holds the requests.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Scripted(BaseHTTPRequestHandler):
    script: list
    seen: list

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.reply("application/json", b'{"data":[]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not {"messages", "contents"} & set(body) or "count" in self.path:
            return self.reply("application/json", b'{"input_tokens": 1}')
        self.seen.append(body)
        names, results = self.names(body), self.results(body)
        call = None
        if names and len(results) < len(self.script):
            end, args = self.script[len(results)]
            name = next((name for name in names if name.endswith(end)), None)
            call = (name, args) if name else None
        text = "SAID " + json.dumps(results)[:20000] if names else "a title"
        self.reply("text/event-stream", self.stream(call, text, len(results)).encode())

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Messages(_Scripted):
    """Anthropic's Messages API."""

    def names(self, body):
        return [tool["name"] for tool in body.get("tools", [])]

    def results(self, body):
        return [
            b["content"]
            for m in body["messages"]
            if isinstance(m["content"], list)
            for b in m["content"]
            if b.get("type") == "tool_result"
        ]

    def stream(self, call, text, turn):
        if call:
            block = {"type": "tool_use", "id": f"toolu_{turn}", "name": call[0], "input": {}}
            delta, stop = (
                {"type": "input_json_delta", "partial_json": json.dumps(call[1])},
                "tool_use",
            )
        else:
            block, delta, stop = (
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": text},
                "end_turn",
            )
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        events = [
            (
                "message_start",
                {"message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            ),
            ("content_block_start", {"index": 0, "content_block": block}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            (
                "message_delta",
                {
                    "delta": {"stop_reason": stop, "stop_sequence": None},
                    "usage": {"output_tokens": 1},
                },
            ),
            ("message_stop", {}),
        ]
        return "".join(
            f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n"
            for kind, rest in events
        )


class Completions(_Scripted):
    """The chat completions that most other clients can speak."""

    def names(self, body):
        return [tool["function"]["name"] for tool in body.get("tools", [])]

    def results(self, body):
        return [m["content"] for m in body["messages"] if m["role"] == "tool"]

    def stream(self, call, text, turn):
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            delta, stop = (
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"index": 0, "id": f"call_{turn}", "type": "function", "function": function}
                    ],
                },
                "tool_calls",
            )
        else:
            delta, stop = {"role": "assistant", "content": text}, "stop"
        frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        chunks = [
            {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
        ]
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


class Contents(_Scripted):
    """Google's generateContent."""

    def names(self, body):
        return [
            declared["name"]
            for tool in body.get("tools", [])
            for declared in tool.get("functionDeclarations", [])
        ]

    def results(self, body):
        return [
            part["functionResponse"]["response"]
            for content in body["contents"]
            for part in content["parts"]
            if "functionResponse" in part
        ]

    def stream(self, call, text, turn):
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        chunk = {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"totalTokenCount": 2},
        }
        return f"data: {json.dumps(chunk)}\n\n"


@contextmanager
def scripted(kind, script):
    """A model on loopback that follows the script: (its address, the requests it saw)."""
    seen: list = []
    handler = type(kind.__name__, (kind,), {"script": script, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
