// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/proto"
)

// The causes of the outcomes that this package creates.
const (
	CausePluginExited = "plugin_gone"         // the process or the connection ended, or fromStatus does not know the status
	CauseDeadline     = "plugin_deadline"     // no answer in time
	CauseCanceled     = "caller_gone"         // the caller cancelled the call
	CauseProtocol     = "plugin_protocol"     // a message that violates the protocol
	CauseTooLarge     = "plugin_too_large"    // an answer or request over MaxMessage
	CausePanic        = "plugin_panic"        // the author's code panicked
	CauseUnclassified = "plugin_unclassified" // the author's code returned an error that classify does not recognize
)

// MaxText is the maximum length of the detail of an outcome, and of its cause, in bytes.
const MaxText = 1024

var protoKinds = map[outcome.Kind]proto.Outcome_Kind{
	outcome.Refused:   proto.Outcome_KIND_REFUSED,
	outcome.NotReady:  proto.Outcome_KIND_NOT_READY,
	outcome.Throttled: proto.Outcome_KIND_THROTTLED,
	outcome.Down:      proto.Outcome_KIND_DOWN,
	outcome.Broken:    proto.Outcome_KIND_BROKEN,
	outcome.Unknown:   proto.Outcome_KIND_UNKNOWN,
}

// toStatus converts an error of the author's code to a gRPC status. It does not send the text of an
// error that classify does not recognize, because the text may contain a secret.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	classified := classify(err)
	msg := &proto.Outcome{
		Kind:   protoKinds[classified.Kind],
		Code:   classified.Code.Name,
		Detail: sanitize(classified.Detail),
		Cause:  sanitize(classified.Cause),
	}
	if classified.RetryAfter > 0 {
		msg.RetryAfter = durationpb.New(classified.RetryAfter)
	}
	st, err := status.New(codes.FailedPrecondition, classified.Kind.String()).WithDetails(msg)
	if err != nil {
		return status.Error(codes.Internal, "outcome cannot be encoded")
	}
	return st.Err()
}

// classify returns the outcome in an error of the author's code, or the outcome that corresponds to
// the error.
func classify(err error) *outcome.Error {
	var o *outcome.Error
	var refusal *fault.Error
	var code fault.Code
	switch {
	case errors.As(err, &o) && o.Kind != 0:
		return o
	case errors.As(err, &refusal):
		return &outcome.Error{Kind: outcome.Refused, Code: refusal.Code, Detail: refusal.Detail, RetryAfter: refusal.RetryAfter}
	case errors.As(err, &code):
		return &outcome.Error{Kind: outcome.Refused, Code: code, Detail: code.Title}
	case errors.Is(err, context.DeadlineExceeded):
		return &outcome.Error{Kind: outcome.Unknown, Cause: CauseDeadline, Detail: "the provider did not answer in time"}
	case errors.Is(err, context.Canceled):
		return &outcome.Error{Kind: outcome.Unknown, Cause: CauseCanceled, Detail: "the caller gave up"}
	default:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseUnclassified, Detail: "the plugin returned an error it did not classify"}
	}
}

// undecodablePrefix is the beginning of the text of a codes.Internal status if grpc-go cannot
// decode an answer. Only this text distinguishes that status from the status of an answer that was
// cut off.
const undecodablePrefix = "grpc: failed to unmarshal the received message"

// fromStatus converts a gRPC error of a call to an outcome. The outcome is Unknown if the call or
// the connection ended before a complete answer, because the plugin may have executed the call. ctx
// is the context of the call: grpc-go reports codes.Canceled if the caller cancelled ctx, and also
// if the connection was closed because the process had ended.
func fromStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	if o := outcomeOf(st); o != nil {
		return outcomeFromProto(o)
	}
	switch st.Code() {
	case codes.Internal:
		if strings.HasPrefix(st.Message(), undecodablePrefix) {
			return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer is not valid"}
		}
	case codes.DeadlineExceeded:
		return &outcome.Error{Kind: outcome.Unknown, Cause: CauseDeadline, Detail: "the plugin did not answer in time"}
	case codes.Canceled:
		if ctx.Err() == nil {
			break
		}
		canceled := &outcome.Error{Kind: outcome.Unknown, Cause: CauseCanceled, Detail: "the caller gave up"}
		return fmt.Errorf("%w: %w", canceled, context.Canceled)
	case codes.ResourceExhausted:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseTooLarge, Detail: "a message between host and plugin is too large"}
	case codes.Unimplemented, codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer is not valid"}
	}
	return &outcome.Error{Kind: outcome.Unknown, Cause: CausePluginExited, Detail: "the plugin's process ended during the call"}
}

// outcomeOf returns the outcome in the details of a status, or nil.
func outcomeOf(st *status.Status) *proto.Outcome {
	for _, detail := range st.Details() {
		if o, ok := detail.(*proto.Outcome); ok {
			return o
		}
	}
	return nil
}

// reportOutcomes returns an interceptor that calls report as Launch.OnOutcome describes.
func reportOutcomes(report func(detail, cause string)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, opts...)
		if report == nil {
			return err
		}
		if o := outcomeOf(status.Convert(err)); o != nil {
			report(o.GetDetail(), o.GetCause())
		}
		return err
	}
}

func outcomeFromProto(o *proto.Outcome) error {
	converted := &outcome.Error{Detail: sanitize(o.GetDetail()), Cause: sanitize(o.GetCause())}
	for kind, number := range protoKinds {
		if number == o.GetKind() {
			converted.Kind = kind
		}
	}
	if wait := o.GetRetryAfter().AsDuration(); wait > 0 {
		converted.RetryAfter = wait
	}
	isKnownCode := true
	if o.GetCode() != "" {
		converted.Code, isKnownCode = fault.ByName(o.GetCode())
	}
	if converted.Kind == 0 || !isKnownCode || (converted.Kind == outcome.Refused && converted.Code.Name == "") || hasCauseOfHost(converted) {
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer is not valid"}
	}
	return converted
}

// hasCauseOfHost reports whether an outcome of a plugin has a cause that only the host may use. The
// SDK itself uses the three causes that are allowed here, and never with the kind Down.
func hasCauseOfHost(o *outcome.Error) bool {
	return strings.HasPrefix(o.Cause, outcome.PluginCausePrefix) &&
		(o.Kind == outcome.Down || !slices.Contains([]string{CausePanic, CauseUnclassified, CauseDeadline}, o.Cause))
}

// sanitize makes a text safe for logs and API responses: valid UTF-8, one line and at most MaxText
// bytes long.
func sanitize(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
