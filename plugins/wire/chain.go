// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
)

// Call describes one call to a provider for an interceptor. Its exported fields come from the
// .proto files, so that an interceptor needs no list of methods.
type Call struct {
	// Operation is the name of the method in snake case, such as create_mailbox.
	Operation string
	// ReadOnly is true if the method is marked NO_SIDE_EFFECTS.
	ReadOnly bool
	// WithoutProvider is true if the plugin answers without calling the provider.
	WithoutProvider bool

	request protobuf.Message
	reply   protobuf.Message
	send    func(context.Context) error
	probe   func() Call
}

// Interceptor runs around a call. It calls next at most once. To refuse the call, it returns an
// error without calling next. The error of next is or wraps an *outcome.Error if it comes from the
// plugin. It can also come from an inner interceptor or from the Opener.
type Interceptor func(ctx context.Context, c Call, next func(context.Context) error) error

// Tenant returns the id of the mail platform's tenant to which the call belongs, or "".
func (c Call) Tenant() string {
	m := c.request.ProtoReflect()
	field := m.Descriptor().Fields().ByName("tenant")
	if field == nil || field.Kind() != protoreflect.StringKind {
		return ""
	}
	return m.Get(field).String()
}

// SpanAttributes returns the values of the request that are marked with span_attribute and are not
// empty. The values are data of a customer.
func (c Call) SpanAttributes() []attribute.KeyValue {
	var attributes []attribute.KeyValue
	walkFields(c.request.ProtoReflect(), func(field protoreflect.FieldDescriptor, value protoreflect.Value) {
		if name := protobuf.GetExtension(field.Options(), proto.E_SpanAttribute).(string); name != "" {
			attributes = append(attributes, attribute.String(name, value.String()))
		}
	})
	return attributes
}

// Probe returns the read with which the circuit breaker tests the provider before it allows the
// write c. If that read succeeds, the provider works again.
func (c Call) Probe() Call { return c.probe() }

// Send sends the call to the plugin without the interceptors. The circuit breaker sends probes with
// it.
func (c Call) Send(ctx context.Context) error { return c.send(ctx) }

// secrets returns the values of the request that are marked as secret, without the secrets of the
// connection.
func (c Call) secrets() []secret.Text {
	var secrets []secret.Text
	walkFields(c.request.ProtoReflect(), func(field protoreflect.FieldDescriptor, value protoreflect.Value) {
		if protobuf.GetExtension(field.Options(), proto.E_Secret).(bool) {
			secrets = append(secrets, secret.New(string(value.Bytes())))
		}
	})
	return secrets
}

// Texts returns the request and the answer as text that people can read. Values that are marked as
// secret are redacted, and the connection is omitted. The answer is empty until the plugin has
// returned one.
func (c Call) Texts() (request, answer string) { return redactedText(c.request), redactedText(c.reply) }

func redactedText(m protobuf.Message) string {
	if m == nil {
		return ""
	}
	redacted := protobuf.Clone(m).ProtoReflect()
	if field := redacted.Descriptor().Fields().ByName(connectionField); field != nil {
		redacted.Clear(field)
	}
	redactFields(redacted)
	return prototext.MarshalOptions{}.Format(redacted.Interface())
}

// redactFields replaces the secret fields of m and of the messages in it. It skips messages in
// lists and maps, which have no secret fields.
func redactFields(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case protobuf.GetExtension(field.Options(), proto.E_Secret).(bool):
			m.Set(field, protoreflect.ValueOfBytes([]byte("[redacted]")))
		case field.Message() != nil && !field.IsList() && !field.IsMap():
			redactFields(value.Message())
		}
		return true
	})
}

// walkFields calls visit with each set field of m and of the messages in it. It skips lists, maps
// and the connection.
func walkFields(m protoreflect.Message, visit func(protoreflect.FieldDescriptor, protoreflect.Value)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case !m.Has(field) || field.IsList() || field.IsMap() || field.Name() == connectionField:
		case field.Message() != nil:
			walkFields(m.Get(field).Message(), visit)
		default:
			visit(field, m.Get(field))
		}
	}
}

const connectionField = "connection"

// probeOf returns the read with which the circuit breaker tests the provider before this write. It
// returns the method of the read, its request and an empty reply.
type probeOf func(write protobuf.Message) (method string, request, reply protobuf.Message)

// chain is the gRPC connection of a provider's client. It passes each call through the interceptors
// and sends it to the plugin process that open returns. The first interceptor is the outermost.
type chain struct {
	noStreams
	open         Opener
	probeOf      probeOf
	interceptors []Interceptor
}

// withInterceptor returns the chain with one more interceptor, which is the outermost.
func (c chain) withInterceptor(outermost Interceptor) chain {
	c.interceptors = append([]Interceptor{outermost}, c.interceptors...)
	return c
}

// Invoke implements grpc.ClientConnInterface.
func (c chain) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	call := c.newCall(method, request.(protobuf.Message), reply, options)
	next := call.send
	for i := len(c.interceptors) - 1; i >= 0; i-- {
		intercept, inner := c.interceptors[i], next
		next = func(ctx context.Context) error { return intercept(ctx, call, inner) }
	}
	return next(ctx)
}

// noStreams is the part of a grpc.ClientConnInterface for streams, which the services of providers
// do not have.
type noStreams struct{}

// NewStream implements grpc.ClientConnInterface.
func (noStreams) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("the services of providers have no streams")
}

func (c chain) newCall(method string, request protobuf.Message, reply any, options []grpc.CallOption) Call {
	methodOpts := methodOptions(method)
	call := Call{
		Operation:       snakeCase(method[strings.LastIndexByte(method, '/')+1:]),
		ReadOnly:        methodOpts.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS,
		WithoutProvider: protobuf.GetExtension(methodOpts, proto.E_WithoutProvider).(bool),
		request:         request,
	}
	call.reply, _ = reply.(protobuf.Message)
	call.send = func(ctx context.Context) error { return c.sendToPlugin(ctx, method, call, reply, options) }
	call.probe = func() Call {
		method, request, reply := c.probeOf(request)
		return c.newCall(method, request, reply, nil)
	}
	return call
}

// sendToPlugin gets a session, sends the call to the session's process, checks the answer and calls
// Session.Done with the error of the call.
func (c chain) sendToPlugin(ctx context.Context, method string, call Call, reply any, options []grpc.CallOption) error {
	s, err := c.open(ctx, call.secrets()...)
	if err != nil {
		return err
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	m := call.request.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName(connectionField), protoreflect.ValueOfMessage(connectionToProto(s.Connection).ProtoReflect()))
	err = fromStatus(ctx, s.Process.conn.Invoke(sendRequestID(ctx), method, call.request, reply, options...))
	if err == nil {
		err = checkAnswer(call.request, call.reply)
	}
	if s.Done != nil {
		s.Done(err)
	}
	return err
}

// defaultCallTimeout is the timeout of a call whose context has no deadline.
const defaultCallTimeout = time.Minute

func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultCallTimeout)
}

// Timeout returns an interceptor that limits the time of each call.
func Timeout(limit time.Duration) Interceptor {
	return func(ctx context.Context, _ Call, next func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return next(ctx)
	}
}

// methodOptions returns the options of a method from the .proto files. method is a path such as
// /tenantry.plugin.v1.MailPlatform/Check.
func methodOptions(method string) *descriptorpb.MethodOptions {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil // a method that is not in the files counts as a write, and writes have the stricter checks
	}
	options, _ := descriptor.Options().(*descriptorpb.MethodOptions)
	return options
}

// Operations returns the names of the operations of a provider of this kind. Budgets, metrics and
// spans use these names.
func Operations(kind Kind) []string {
	file := map[Kind]protoreflect.FileDescriptor{
		KindMail: proto.File_plugins_proto_mail_proto, KindDNS: proto.File_plugins_proto_dns_proto, KindSending: proto.File_plugins_proto_sending_proto,
	}[kind]
	if file == nil {
		return nil
	}
	methods := file.Services().Get(0).Methods()
	names := make([]string, 0, methods.Len())
	for i := range methods.Len() {
		names = append(names, snakeCase(string(methods.Get(i).Name())))
	}
	return names
}

// snakeCase converts the name of a method: EnableSMTPAuth to enable_smtp_auth.
func snakeCase(name string) string {
	var out strings.Builder
	letters := []rune(name)
	for i, letter := range letters {
		wordBegins := i > 0 && unicode.IsUpper(letter) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if wordBegins {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(letter))
	}
	return out.String()
}

// CutReadsAsDown returns an interceptor for reads whose connection between the plugin and the
// provider was cut. It replaces their outcome Unknown by Down, because a read has no effect.
func CutReadsAsDown() Interceptor {
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		err := next(ctx)
		var cutErr *outcome.Error
		if !c.ReadOnly || !errors.As(err, &cutErr) || cutErr.Kind != outcome.Unknown || cutErr.Cause != outcome.CauseConnectionCut {
			return err
		}
		return &outcome.Error{Kind: outcome.Down, Cause: cutErr.Cause, Detail: "the connection to the provider was cut"}
	}
}
