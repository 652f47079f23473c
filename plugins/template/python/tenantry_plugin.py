# SPDX-License-Identifier: Apache-2.0
"""The plugin protocol of tenantry. Authors do not change this file.

docs/plugin-protocol.md of tenantry describes the protocol. The modules grpc, google.protobuf and
cryptography are imported only in a process that the host started. The commands `describe`,
`simulate` and `--version` need the standard library only.
"""

import argparse
import base64
import datetime
import ipaddress
import json
import os
import signal
import stat
import sys
import threading
import traceback
import urllib.parse

COOKIE = ("TENANTRY_PLUGIN", "b6b0ad7a-hosted-by-tenantry")
PROTOCOL_VERSION = 1
MAX_MESSAGE = 4 << 20  # bytes, in both directions
# Each call runs in a thread. By default the host limits a plugin to 1024 MiB of memory, which
# includes the stacks of its threads, and to 512 more threads than its user had when it started. All
# plugins of a host can have the same user, so MAX_CALLS leaves threads for the others.
MAX_CALLS = 128  # calls at once
STACK_SIZE = 1 << 20  # of each thread, in bytes
MAX_CALL_SECONDS = 60.0  # of a call

KINDS = {"refused": 1, "not_ready": 2, "throttled": 3, "down": 4, "broken": 5, "unknown": 6}


class Outcome(Exception):
    """The error of a failed call: why it failed, and what is known about its effect.

    kind is one of KINDS. code is the published error code of a refusal. detail is shown to callers,
    and cause to operators. Neither contains a secret, customer data or text of the provider.
    retry_after is the wait that the provider asks for, in seconds.
    """

    def __init__(self, kind, cause, detail, code="", retry_after=0.0):
        super().__init__(f"{kind} ({cause}): {detail}")
        self.kind, self.cause, self.detail = kind, cause, detail
        self.code, self.retry_after = code, retry_after


def misconfigured(setting, detail):
    """Returns the outcome for a connection with an invalid setting. Nothing was sent."""
    return Outcome("refused", f"setting {setting}", f"{setting}: {detail}", "invalid_request")


def credential_refused(cause):
    """Returns the outcome for a credential that is not accepted, or does not permit the call."""
    return Outcome("refused", cause, "the provider does not take the credential, or it does not allow this", "access_denied")


def request_refused(cause):
    """Returns the outcome for a request that the provider refused and would refuse again."""
    return Outcome("refused", cause, "the provider refused this", "provider_error")


def broken_answer(cause):
    """Returns the outcome for an answer that is not valid or reports an internal error."""
    return Outcome("broken", cause, "the provider answered with an error")


def unknown_effect(cause):
    """Returns the outcome for a call that may or may not have had an effect."""
    return Outcome("unknown", cause, "the provider did not answer in time")


class Connection:
    """The settings and the secrets of one call. Do not keep them after the call."""

    def __init__(self, settings, secrets):
        self.settings, self.secrets = settings, secrets

    def __repr__(self):
        return "Connection([redacted])"


class Call:
    """The properties of one call of the host to the provider."""

    def __init__(self, time_left, request_id, hosts):
        self.time_left = time_left  # a function: the seconds until the deadline
        self.request_id = request_id
        self.hosts = hosts  # the hosts to which requests may go; empty for all hosts


def main(description, connect, methods, simulator):
    """Runs the plugin, and returns the exit code.

    connect(connection) returns the provider for one call. methods() returns the gRPC methods of the
    plugin's kind. It maps each name to the type of the request and the function that answers it.
    simulator(name, port, world) returns the simulated provider, see tenantry_simulator.py.
    """
    name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
    if not args and os.environ.get(COOKIE[0]) == COOKIE[1]:
        return _serve(description, connect, methods)
    if args == ["describe"]:
        print(json.dumps(description, indent=2))
        return 0
    if args in (["--version"], ["version"]):
        print(description["name"], description["version"])
        return 0
    if args[:1] == ["simulate"]:
        return _simulate(description["name"], simulator, args[1:])
    print(f"{name} is a plugin of tenantry, which starts it when it is needed.\n"
          f"By hand: {name} describe | simulate --listen 127.0.0.1:0 --data DIR | --version", file=sys.stderr)
    return 2


def log(level, message, **fields):
    """Writes a line to the host's log. The host removes the secrets of the calls in progress."""
    print(json.dumps({"@level": level, "@message": message, **fields}), file=sys.stderr, flush=True)


def _exit_with_host():
    """Ends the process when standard input ends. The host keeps it open while the host runs."""
    mode = os.fstat(0).st_mode
    if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
        return

    def wait():
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _serve(description, connect, methods):
    # Service managers signal all processes of a service. The host ends this process when it is not
    # needed any more.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _exit_with_host()
    if str(PROTOCOL_VERSION) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        print("the host does not support protocol version", PROTOCOL_VERSION, file=sys.stderr)
        print(f"1|{PROTOCOL_VERSION}|unix||grpc|")  # the host reads the version
        return 1

    from concurrent import futures

    import grpc

    threading.stack_size(STACK_SIZE)
    # A separate thread answers the health check while all others wait for the provider. The host
    # kills a plugin that does not answer this check.
    _check_health.experimental_thread_pool = futures.ThreadPoolExecutor(1)
    key, certificate, der = _new_certificate()
    host_certificate = os.environ["PLUGIN_CLIENT_CERT"].encode()
    server = grpc.server(futures.ThreadPoolExecutor(MAX_CALLS), options=[
        ("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)])
    stopped = threading.Event()
    server.add_generic_rpc_handlers((_Services(grpc, description, connect, methods, stopped),))
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
    server.add_secure_port("unix:" + path, grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=host_certificate, require_client_auth=True))
    server.start()
    announced = base64.b64encode(der).decode().rstrip("=")
    print(f"1|{PROTOCOL_VERSION}|unix|{path}|grpc|{announced}", flush=True)
    sys.stdout = sys.stderr  # the host reads one line of standard output only
    stopped.wait()
    server.stop(grace=1).wait()
    return 0


def _new_certificate():
    """Returns a key as PEM, and its certificate as PEM and DER. They are for this process only."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.utcnow()
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256()))
    pem, der = serialization.Encoding.PEM, serialization.Encoding.DER
    return (key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(pem), certificate.public_bytes(der))


def _check_health(*_):
    """Returns the answer SERVING to a health check."""
    return b"\x08\x01"


class _Services:
    """The gRPC services of a plugin: health, controller, Plugin, and the service of its kind."""

    def __init__(self, grpc, description, connect, methods, stopped):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "messages"))
        from plugins.proto import plugin_pb2

        self.grpc, self.connect, self.stopped, self.plugin = grpc, connect, stopped, plugin_pb2
        self.description = _description(plugin_pb2, description)
        prefix = "/tenantry.plugin.v1."
        self.methods = {
            "/grpc.health.v1.Health/Check": self._raw(_check_health),
            "/plugin.GRPCController/Shutdown": self._raw(self._shutdown),
            prefix + "Plugin/Describe": self._raw(lambda *_: self.description.SerializeToString()),
        }
        for name, (request_type, answer) in methods().items():
            self.methods[prefix + name] = self._method(request_type, answer)

    def service(self, call):
        """Implements grpc.GenericRpcHandler. An unknown method is answered with UNIMPLEMENTED."""
        return self.methods.get(call.method)

    def _raw(self, answer):
        return self.grpc.unary_unary_rpc_method_handler(answer)

    def _shutdown(self, *_):
        self.stopped.set()
        return b""

    def _method(self, request_type, run):
        def answer(request, context):
            request_id = dict(context.invocation_metadata()).get("x-request-id", "")
            try:
                connection = Connection(dict(request.connection.settings),
                                        {n: v.decode() for n, v in request.connection.secrets.items()})
                call = Call(lambda: _time_left(context), request_id, _hosts(self.description.hosts, connection))
                return run(self.connect(connection), call, request)
            except Outcome as outcome:
                failure = outcome
            except Exception as error:  # its text may contain a secret
                log("error", "call failed", request_id=request_id, type=type(error).__name__,
                    stack="".join(traceback.format_tb(error.__traceback__)))
                failure = Outcome("broken", "plugin_unclassified", "the plugin returned an error it did not classify")
            context.set_trailing_metadata((("grpc-status-details-bin", self._status(failure)),))
            return context.abort(self.grpc.StatusCode.FAILED_PRECONDITION, failure.kind)

        return self.grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request_type.FromString,
            response_serializer=lambda message: message.SerializeToString())

    def _status(self, failure):
        """Returns a google.rpc.Status with the outcome as its detail."""
        from google.protobuf import any_pb2

        message = self.plugin.Outcome(kind=KINDS[failure.kind], code=failure.code,
                                      detail=failure.detail, cause=failure.cause)
        if failure.retry_after > 0:
            message.retry_after.FromTimedelta(datetime.timedelta(seconds=failure.retry_after))
        detail = any_pb2.Any()
        detail.Pack(message)
        fields = [b"\x08\x09"]  # code = FAILED_PRECONDITION
        for number, content in ((2, failure.kind.encode()), (3, detail.SerializeToString())):
            fields.append(bytes([number << 3 | 2]) + _varint(len(content)) + content)
        return b"".join(fields)


def _time_left(context):
    """Returns the seconds until the deadline of a call, at most MAX_CALL_SECONDS."""
    left = context.time_remaining()  # None or many years if the call has no deadline
    return MAX_CALL_SECONDS if left is None else min(left, MAX_CALL_SECONDS)


def _hosts(named, connection):
    """Returns the hosts of a description. A field in braces stands for the host in its value.

    A secret that is not a URL is a token or a password, and contains no host. A value with a pattern
    adds no host, because an account must not allow more than one host.
    """
    fields = connection.settings | {n: v for n, v in connection.secrets.items() if "://" in v}
    hosts = [_host_in(fields.get(h[1:-1], "") if h.startswith("{") else h) for h in named]
    return ["" if n.startswith("{") and "*" in h else h for n, h in zip(named, hosts)]


def _host_in(value):
    """Returns the host in a URL, in host:port, or in a value that is only a host.

    For any other value it returns an empty text.
    """
    value = value.strip().partition("#")[0]  # the part after the # can be a token
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        pass
    try:
        return urllib.parse.urlsplit(value if "://" in value else "//" + value).hostname or ""
    except ValueError:
        return ""


def _varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def _description(pb, d):
    """Converts a description from the form that `describe` prints."""
    message = pb.Description(**{**d, "budgets": [], "needs": {}})
    for capability, names in d.get("needs", {}).items():
        message.needs[capability].names.extend(names)
    for b in d.get("budgets", []):
        budget = message.budgets.add(key=b["key"], limit=b["limit"], costs=b.get("costs", {}), only=b.get("only", []))
        budget.window.FromTimedelta(datetime.timedelta(seconds=b["window_seconds"]))
    return message


def _simulate(name, simulator, args):
    """Runs the command `simulate`. It serves the simulated provider until standard input ends."""
    parser = argparse.ArgumentParser(prog=f"{os.path.basename(sys.argv[0])} simulate")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--data", required=True)
    parser.add_argument("--world", default="")
    options = parser.parse_args(args)
    host, _, port = options.listen.rpartition(":")
    if host not in ("127.0.0.1", "localhost"):
        parser.error("a simulator listens on a loopback address only")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    _exit_with_host()
    simulated = simulator(name, int(port), options.world)
    simulated.keep(options.data)
    print(json.dumps(simulated.ready), flush=True)
    simulated.serve_forever()
    return 0
