// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenantry/tenantry/ports"
)

const backlog = `
SELECT args->>'job', count(*), greatest(0, extract(epoch FROM now() - min(scheduled_at)))::float8
FROM river_job WHERE state IN ('available', 'scheduled', 'retryable') AND queue = $1 GROUP BY 1`

// Backlog implements ports.Worker.
func (r *River) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	rows, err := r.pool.Query(ctx, backlog, lane)
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b ports.Backlog, err error) {
		var late float64
		err = row.Scan(&b.Kind, &b.Waiting, &late)
		b.Late = time.Duration(late * float64(time.Second))
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	slices.SortFunc(all, byKind)
	return all, nil
}

func byKind(a, b ports.Backlog) int { return strings.Compare(a.Kind, b.Kind) }
