// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/extra/bunotel"
)

// tracing makes a span of each statement. bunotel leaves values out of the
// statement's text; the database's error messages can hold some, so of those
// only the kind is recorded.
type tracing struct{ *bunotel.QueryHook }

func newTracing(o Options) tracing {
	var options []bunotel.Option
	if o.TracerProvider != nil {
		options = append(options, bunotel.WithTracerProvider(o.TracerProvider))
	}
	if o.MeterProvider != nil {
		options = append(options, bunotel.WithMeterProvider(o.MeterProvider))
	}
	return tracing{bunotel.NewQueryHook(options...)}
}

// AfterQuery ends the span.
func (t tracing) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	shown := *event
	shown.Err = harmless(event.Err)
	t.QueryHook.AfterQuery(ctx, &shown)
}

func harmless(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	if kind := kindOf(err); kind != nil {
		return kind
	}
	return errors.New("statement failed")
}
