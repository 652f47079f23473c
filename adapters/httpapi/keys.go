// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

type rotateInput struct {
	UserEmail string `query:"user_email" required:"true"`
}

type rotatedKey struct {
	Status    string    `json:"status" enum:"rotated" doc:"Always rotated."`
	APIKey    string    `json:"api_key" doc:"The new key. It is shown only this once."`
	KeyHint   string    `json:"key_hint" doc:"The last four characters of the new key."`
	RotatedAt time.Time `json:"rotated_at" doc:"When the old key was revoked."`
}

func keyOperations(api huma.API, service *keys.Service) {
	register(api, huma.Operation{
		OperationID: "rotate-api-key", Method: http.MethodPost, Path: "/api-key/rotate", Tags: []string{tagKeys},
		Summary: "Rotate the API key",
		Description: "Replaces the API key of the request. The old key is invalid as soon as the response is sent. The new key is shown only this " +
			"once and stored as a hash. This operation takes no Idempotency-Key and cannot be replayed: if you lose the response, ask the operator for a new key.",
		Metadata: guard.Terms{Bucket: guard.Reads, Answer: exampleRotated, Refuses: only(fault.AccessDenied)}.Metadata(),
	}, func(ctx context.Context, who access.Caller, in *rotateInput) (rotatedKey, error) {
		fresh, err := service.Rotate(ctx, who, in.UserEmail)
		if err != nil {
			return rotatedKey{}, err
		}
		return rotatedKey{Status: "rotated", APIKey: fresh.Secret.Reveal(), KeyHint: fresh.Hint, RotatedAt: fresh.At.UTC()}, nil
	})
}
