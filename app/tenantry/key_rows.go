// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// keyRow is a key in the one moment in which it can be shown.
type keyRow struct {
	KeyID     string `json:"key_id"`
	AccountID string `json:"account_id"`
	APIKey    string `json:"api_key"`
	Hint      string `json:"key_hint"`
	Form      string `json:"form"`
	Name      string `json:"name"`
	CreatedAt string `json:"created_at"`
}

func keyOf(k access.Key, text secret.Text) keyRow {
	return keyRow{k.ID, string(k.Account), text.Reveal(), k.Hint, string(k.Form), k.Name, cli.Stamp(k.CreatedAt)}
}

func (r keyRow) Columns() [][2]string {
	return [][2]string{
		{"KEY", r.KeyID}, {"ACCOUNT", r.AccountID}, {"API KEY (shown this once)", r.APIKey}, {"FORM", r.Form},
		{"NAME", r.Name}, {"CREATED", r.CreatedAt},
	}
}

// rotatedRow is the key that took another's place.
type rotatedRow struct {
	keyRow

	Status    string `json:"status"`
	Replaced  string `json:"replaced_key_id"`
	RotatedAt string `json:"rotated_at"`
}

func (r rotatedRow) Columns() [][2]string {
	return append(r.keyRow.Columns(), [2]string{"REPLACES", r.Replaced})
}

type revokedRow struct {
	KeyID     string `json:"key_id"`
	Status    string `json:"status"`
	RevokedAt string `json:"revoked_at"`
}

func (r revokedRow) Columns() [][2]string {
	return [][2]string{{"KEY", r.KeyID}, {"STATUS", r.Status}, {"REVOKED", r.RevokedAt}}
}

// issuedRow is a key as it is stored.
type issuedRow struct {
	KeyID     string  `json:"key_id"`
	AccountID string  `json:"account_id"`
	Hint      string  `json:"key_hint"`
	Form      string  `json:"form"`
	Name      string  `json:"name"`
	Status    string  `json:"status"`
	CreatedAt string  `json:"created_at"`
	RevokedAt *string `json:"revoked_at"`
}

func issuedOf(k access.Key) issuedRow {
	return issuedRow{k.ID, string(k.Account), k.Hint, string(k.Form), k.Name, string(k.Status()), cli.Stamp(k.CreatedAt), since(k.RevokedAt)}
}

func (r issuedRow) Columns() [][2]string {
	return [][2]string{
		{"KEY", r.KeyID}, {"ACCOUNT", r.AccountID}, {"HINT", "…" + r.Hint}, {"FORM", r.Form}, {"NAME", r.Name},
		{"STATUS", r.Status}, {"CREATED", r.CreatedAt}, {"REVOKED", dash(r.RevokedAt)},
	}
}
