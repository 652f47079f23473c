// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
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

func registerKeyOperations(api huma.API, service *keys.Service) {
	registerListKeys(api, service)
	registerCreateKey(api, service)
	registerRevokeKey(api, service)
	registerRotateKey(api, service)
	registerRotateOwnKey(api, service)
}

// keyListName is the name that the cursors of the key list contain.
const keyListName = "keys"

func registerListKeys(api huma.API, service *keys.Service) {
	register(api, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys", Tags: []string{tagKeys},
		Summary: "List API keys",
		Description: "Lists the account's API keys, newest first, including revoked keys. The service stores only hashes of keys, so it cannot show the keys: " +
			"`key_hint` helps to tell them apart. If the key of the request is limited to some tenants, keys for other tenants are omitted, so a " +
			"page can have fewer entries than `limit`.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.KeysRead, AnswerExample: exampleKeyList, Refuses: specificCodes(fault.InvalidRequest)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *pageInput) (keyPage, error) {
		q, err := in.query(keyListName)
		if err != nil {
			return keyPage{}, err
		}
		found, err := service.List(ctx, caller, q)
		if err != nil {
			return keyPage{}, err
		}
		return keyPage{Keys: convertAll(found.Entries, keyOf), NextCursor: textOrNil(found.Next.Encode(keyListName))}, nil
	})
}

func registerCreateKey(api huma.API, service *keys.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: "/v1/keys", Tags: []string{tagKeys},
		Summary: "Create an API key",
		Description: "Creates an API key of the account. `api_key` is shown only in this response and its replays. The new key never has more rights " +
			"than the key of the request: no other scope, tenant or address, and no later expiry. Otherwise the answer is `insufficient_scope`.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.KeysWrite, Write: true, ManagesKeys: true, Creates: event.Key,
			RequestExample: exampleCreateKey, AnswerExample: exampleIssuedKey}.Metadata(),
	}, issuedKeyOf, func(ctx context.Context, caller access.Caller, in *createKeyInput, encoder ports.AnswerEncoder[keys.IssuedKey]) (keys.IssuedKey, error) {
		requested, err := in.Body.request()
		if err != nil {
			return keys.IssuedKey{}, err
		}
		return service.Create(ctx, caller, requested, encoder)
	})
}

func registerRevokeKey(api huma.API, service *keys.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/keys/{key_id}", Tags: []string{tagKeys},
		Summary: "Revoke an API key",
		Description: "Revokes an API key and all its secrets, at once and permanently. A key that was revoked before keeps its `revoked_at`. A key " +
			"can revoke itself, but no key that has more rights than itself.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.KeysWrite, Write: true, ManagesKeys: true,
			AnswerExample: exampleRevokedKey, Refuses: specificCodes(fault.KeyNotFound)}.Metadata(),
	}, revokedKeyOf, func(ctx context.Context, caller access.Caller, in *keyPath, encoder ports.AnswerEncoder[access.Key]) (access.Key, error) {
		return service.Revoke(ctx, caller, in.KeyID, encoder)
	})
}

func registerRotateKey(api huma.API, service *keys.Service) {
	registerWithStoredAnswer(api, huma.Operation{
		OperationID: "rotate-key", Method: http.MethodPost, Path: "/v1/keys/{key_id}/rotate", Tags: []string{tagKeys},
		Summary: "Rotate an API key",
		Description: "Gives an API key a new secret; its id and its bounds stay. The old secret works for `overlap_hours`, and earlier secrets no longer " +
			"than that. `api_key` is shown only in this response and its replays. The body may be empty.",
		Metadata: guard.OperationRules{Bucket: guard.Writes, Scope: access.KeysWrite, Write: true, ManagesKeys: true,
			RequestExample: exampleRotateKey, AnswerExample: exampleIssuedKey, Refuses: specificCodes(fault.KeyNotFound, fault.KeyRevoked)}.Metadata(),
	}, issuedKeyOf, func(ctx context.Context, caller access.Caller, in *rotateKeyInput, encoder ports.AnswerEncoder[keys.IssuedKey]) (keys.IssuedKey, error) {
		return service.RenewSecret(ctx, caller, in.KeyID, in.overlap(), encoder)
	})
}

func registerRotateOwnKey(api huma.API, service *keys.Service) {
	register(api, huma.Operation{
		OperationID: "rotate-api-key", Method: http.MethodPost, Path: "/api-key/rotate", Tags: []string{tagKeys},
		Summary: "Rotate the API key",
		Description: "Replaces the API key of the request by a new one with the same name and bounds. The old key is invalid as soon as the response is sent. The new key is shown only this " +
			"once and stored as a hash. This operation takes no Idempotency-Key and cannot be replayed: if you lose the response, ask the operator for a new key.",
		Metadata: guard.OperationRules{Bucket: guard.Reads, Scope: access.KeysWrite, AnswerExample: exampleRotatedKey, Refuses: specificCodes(fault.AccessDenied)}.Metadata(),
	}, func(ctx context.Context, caller access.Caller, in *rotateInput) (rotatedKey, error) {
		issued, err := service.Rotate(ctx, caller, in.UserEmail)
		if err != nil {
			return rotatedKey{}, err
		}
		return rotatedKey{Status: "rotated", APIKey: issued.Secret.Reveal(), KeyHint: issued.Hint, RotatedAt: issued.RotatedAt.UTC()}, nil
	})
}

type keyPath struct {
	KeyID string `path:"key_id"`
}

type createKeyInput struct {
	Body newKey
}

type newKey struct {
	Name         string   `json:"name" doc:"What the key is for, 1 to 256 characters."`
	Scopes       []string `json:"scopes" doc:"What the key may do: scopes of operations such as tenants:read, a resource with a star such as domains:*, or * for everything."`
	TenantIDs    []string `json:"tenant_ids,omitempty" doc:"The GUIDs of the tenants that the key sees. If omitted, the key sees all."`
	AllowedCIDRs []string `json:"allowed_cidrs,omitempty" doc:"The networks from which the key can be used, such as 192.0.2.0/24. If omitted, from all."`
	ExpiresAt    string   `json:"expires_at,omitempty" format:"date-time" doc:"When the key expires. If omitted, it never expires."`
}

// request returns the key request of the body. ExpiresAt is a string and is parsed here, because
// time.Time does not decode the escapes of a JSON string.
func (b newKey) request() (keys.KeyRequest, error) {
	requested := keys.KeyRequest{Scopes: b.Scopes, Tenants: b.TenantIDs, Networks: b.AllowedCIDRs}
	if b.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, b.ExpiresAt) // huma has checked the format
		if err != nil {
			return requested, err
		}
		requested.ExpiresAt = &at
	}
	var err error
	requested.Name, err = mailbox.DisplayName(norm.NFC.String(b.Name), "name")
	return requested, err
}

type rotateKeyInput struct {
	KeyID string `path:"key_id"`
	Body  *rotateKey
}

type rotateKey struct {
	OverlapHours *int `json:"overlap_hours,omitempty" minimum:"0" maximum:"72" doc:"For how many hours the old secret still works. If omitted, 24."`
}

func (in *rotateKeyInput) overlap() time.Duration {
	if in.Body == nil || in.Body.OverlapHours == nil {
		return access.DefaultOverlap
	}
	return time.Duration(*in.Body.OverlapHours) * time.Hour
}

type keyPage struct {
	Keys       []KeyEntry `json:"keys" doc:"The keys, newest first."`
	NextCursor *string    `json:"next_cursor" doc:"The value of after for the next page, null at the end."`
}

// KeyEntry is exported because huma skips unexported embedded structs.
type KeyEntry struct {
	ID           string     `json:"id" format:"uuid" doc:"The key's id; used in paths."`
	Name         string     `json:"name" doc:"What the key is for."`
	KeyHint      string     `json:"key_hint" doc:"The last four characters of the key."`
	Scopes       []string   `json:"scopes" doc:"What the key may do; * means everything."`
	TenantIDs    *[]string  `json:"tenant_ids" nullable:"true" doc:"The GUIDs of the tenants that the key sees, null for all."`
	AllowedCIDRs *[]string  `json:"allowed_cidrs" nullable:"true" doc:"The networks from which the key can be used, null for all."`
	CreatedAt    time.Time  `json:"created_at" doc:"When it was created."`
	CreatedBy    *string    `json:"created_by" doc:"The id of the key that created it, or the name of the operator. Null if unknown."`
	ExpiresAt    *time.Time `json:"expires_at" doc:"When it expires, null for never."`
	LastUsedAt   *time.Time `json:"last_used_at" doc:"The minute of its last request, null if there was none. It appears up to a minute later."`
	RevokedAt    *time.Time `json:"revoked_at" doc:"When it was revoked, null if it was not."`
}

type issuedKey struct {
	KeyEntry

	APIKey string `json:"api_key" doc:"The key. It is shown only in this response and its replays."`
}

type revokedKey struct {
	Status    string    `json:"status" enum:"revoked" doc:"Always revoked."`
	ID        string    `json:"id" format:"uuid" doc:"The key's id."`
	RevokedAt time.Time `json:"revoked_at" doc:"When it was revoked."`
}

func keyOf(k access.Key) KeyEntry {
	var networks []string
	for _, n := range k.Bounds.Networks {
		networks = append(networks, n.String())
	}
	return KeyEntry{ID: k.ID, Name: k.Name, KeyHint: k.Hint, Scopes: access.Strings(k.Bounds.Scopes), TenantIDs: listOrNil(access.Strings(k.Bounds.Tenants)),
		AllowedCIDRs: listOrNil(networks), CreatedAt: k.CreatedAt.UTC(), CreatedBy: textOrNil(k.CreatedBy), ExpiresAt: timeOrNil(k.Bounds.ExpiresAt),
		LastUsedAt: timeOrNil(k.LastUsedAt), RevokedAt: timeOrNil(k.RevokedAt)}
}

func issuedKeyOf(k keys.IssuedKey) issuedKey {
	return issuedKey{KeyEntry: keyOf(k.Key), APIKey: k.Secret.Reveal()}
}

func revokedKeyOf(k access.Key) revokedKey {
	return revokedKey{Status: "revoked", ID: k.ID, RevokedAt: k.RevokedAt.UTC()}
}
