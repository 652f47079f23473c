// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/proto"
)

// Causes that this package gives to outcomes of its own.
const (
	CauseGone         = "plugin_gone"         // the process died or the connection broke
	CauseDeadline     = "plugin_deadline"     // no answer in time
	CauseCanceled     = "caller_gone"         // the caller gave up
	CauseProtocol     = "plugin_protocol"     // an answer that makes no sense
	CauseTooLarge     = "plugin_too_large"    // an answer or request over MaxMessage
	CausePanic        = "plugin_panic"        // the author's code panicked
	CauseUnclassified = "plugin_unclassified" // the author's code returned a bare error
)

// textLimit bounds what a plugin may say in an outcome, in bytes.
const textLimit = 1024

var kinds = map[outcome.Kind]proto.Outcome_Kind{
	outcome.Refused:   proto.Outcome_KIND_REFUSED,
	outcome.NotReady:  proto.Outcome_KIND_NOT_READY,
	outcome.Throttled: proto.Outcome_KIND_THROTTLED,
	outcome.Down:      proto.Outcome_KIND_DOWN,
	outcome.Broken:    proto.Outcome_KIND_BROKEN,
	outcome.Unknown:   proto.Outcome_KIND_UNKNOWN,
}

// toStatus puts what the author's code returned on the wire. A bare error is
// never sent as text: it may quote a secret.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	o := classify(err)
	msg := &proto.Outcome{
		Kind:   kinds[o.Kind],
		Code:   o.Code.Name,
		Detail: clean(o.Detail),
		Cause:  clean(o.Cause),
	}
	if o.RetryAfter > 0 {
		msg.RetryAfter = durationpb.New(o.RetryAfter)
	}
	st, err := status.New(codes.FailedPrecondition, o.Kind.String()).WithDetails(msg)
	if err != nil {
		return status.Error(codes.Internal, "outcome cannot be encoded")
	}
	return st.Err()
}

// classify finds the outcome in an error of the author's code.
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

// fromStatus reads what came back from a plugin. Whatever leaves a doubt about
// the effect is Unknown, for reads too: one rule is easier to trust than two.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if o, ok := detail.(*proto.Outcome); ok {
			return outcomeIn(o)
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return &outcome.Error{Kind: outcome.Unknown, Cause: CauseDeadline, Detail: "the plugin did not answer in time"}
	case codes.Canceled:
		gone := &outcome.Error{Kind: outcome.Unknown, Cause: CauseCanceled, Detail: "the caller gave up"}
		return fmt.Errorf("%w: %w", gone, context.Canceled)
	case codes.ResourceExhausted:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseTooLarge, Detail: "a message between host and plugin is too large"}
	case codes.Unimplemented, codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer makes no sense"}
	default:
		return &outcome.Error{Kind: outcome.Unknown, Cause: CauseGone, Detail: "the plugin went away during the call"}
	}
}

func outcomeIn(o *proto.Outcome) error {
	in := &outcome.Error{Detail: clean(o.GetDetail()), Cause: clean(o.GetCause())}
	for kind, number := range kinds {
		if number == o.GetKind() {
			in.Kind = kind
		}
	}
	if wait := o.GetRetryAfter().AsDuration(); wait > 0 {
		in.RetryAfter = wait
	}
	known := true
	if o.GetCode() != "" {
		in.Code, known = fault.ByName(o.GetCode())
	}
	if in.Kind == 0 || !known || (in.Kind == outcome.Refused && in.Code.Name == "") {
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer makes no sense"}
	}
	return in
}

// clean keeps texts of a plugin harmless for logs and answers: valid, of one
// line and of bounded length.
func clean(s string) string {
	if len(s) > textLimit {
		s = s[:textLimit]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
