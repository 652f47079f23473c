// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// provisionMailboxes asks for mailboxes. Domain, password and addresses carry
// no rules here: core has codes of their own for them.
type provisionMailboxes struct {
	Domain          string          `json:"domain" doc:"A verified domain of the tenant."`
	AccountPassword string          `json:"account_password" writeOnly:"true" doc:"8 to 256 characters with three of the four classes: lower case, upper case, digit (each as Unicode has it, so ö is lower case) and everything else. It is never stored or shown."`
	Mailboxes       []wantedMailbox `json:"mailboxes" minItems:"1" doc:"The mailboxes. With those that exist a domain holds at most 3."`
}

type wantedMailbox struct {
	Name  string `json:"name" doc:"The display name, 1 to 256 characters."`
	Email string `json:"email" doc:"The address; it ends with @ and the domain."`
}

func (b provisionMailboxes) request() (mailboxes.Request, error) {
	specs, err := mailbox.CheckNames(each(b.Mailboxes, func(w wantedMailbox) mailbox.Spec {
		return mailbox.Spec{DisplayName: norm.NFC.String(w.Name), Address: w.Email}
	}))
	if err != nil {
		return mailboxes.Request{}, err
	}
	return mailboxes.Request{Domain: b.Domain, Password: secret.New(b.AccountPassword), Mailboxes: specs}, nil
}

// updateMailbox keeps the members as they came. Which refusal answers depends
// on all of them together, and daily_send_limit has a code of its own for
// every wrong kind.
type updateMailbox struct{ members map[string]json.RawMessage }

// UnmarshalJSON takes anything; change tells what it is.
func (b *updateMailbox) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &b.members); err != nil {
		b.members = nil // no object
	}
	return nil
}

// change refuses what is no change with invalid_request. It lets an empty one
// and a send limit of the wrong kind pass: their codes come after ownership.
func (b updateMailbox) change() (mailboxes.Change, error) {
	if b.members == nil {
		return mailboxes.Change{}, invalid("the body is not an object", fault.Field{Location: "body", Message: "expected object"})
	}
	var c mailboxes.Change
	name, named := b.members["display_name"]
	limit, limited := b.members["daily_send_limit"]
	if unknown := b.unknown(); len(unknown) > 0 && (named || limited) {
		return c, invalid("the body has members that this operation does not know", unknown...)
	}
	if named {
		var text *string
		if err := json.Unmarshal(name, &text); err != nil || text == nil {
			return c, invalid("a member has the wrong type", fault.Field{Location: "body.display_name", Message: "expected string"})
		}
		canonical, err := mailbox.DisplayName(norm.NFC.String(*text), "body.display_name")
		if err != nil {
			return c, err
		}
		c.DisplayName = &canonical
	}
	if limited {
		perDay := wholeNumber(limit)
		c.DailySendLimit = &perDay
	}
	return c, nil
}

// unknown names the members that are no fields, as huma does for other bodies.
func (b updateMailbox) unknown() []fault.Field {
	var fields []fault.Field
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		if name != "display_name" && name != "daily_send_limit" && len(fields) < maxFields {
			fields = append(fields, fieldOf(&huma.ErrorDetail{Location: "body." + name, Message: "unexpected property"}))
		}
	}
	return fields
}

// wholeNumber reads an integer as it is written: 5, but not 5.0, 1e1 or "5".
// All else is 0, which core refuses with the field's own code.
func wholeNumber(raw json.RawMessage) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// Schema documents the rules that change and core check.
func (updateMailbox) Schema(huma.Registry) *huma.Schema {
	least, most := float64(sendlimit.Least), float64(sendlimit.Most)
	one, longest := 1, 256
	return &huma.Schema{
		Type: huma.TypeObject, MinProperties: &one, AdditionalProperties: false,
		Description: "The members to change, at least one.",
		Properties: map[string]*huma.Schema{
			"display_name": {Type: huma.TypeString, MinLength: &one, MaxLength: &longest, Description: "The new display name."},
			"daily_send_limit": {Type: huma.TypeInteger, Minimum: &least, Maximum: &most,
				Description: "The most messages a day, written as an integer."},
		},
	}
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
