// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

const (
	maxLocal   = 64
	maxAddress = 254
	// maxFields keeps the answer to a hostile request short.
	maxFields = 10
)

// CheckAddresses returns the specs with canonical addresses, all on the domain of the request. It
// fails with invalid_mailbox_email or duplicate_mailbox_email.
func CheckAddresses(domainName string, specs []Spec) ([]Spec, error) {
	canonical := make([]Spec, len(specs))
	var bad, repeated []fault.Field
	first := make(map[string]bool, len(specs))
	for i, spec := range specs {
		at := fmt.Sprintf("body.mailboxes[%d].email", i)
		address, ok := address(spec.Address, domainName)
		switch {
		case !ok:
			bad = append(bad, fault.Field{Location: at, Message: "not a plain local part followed by @ and the domain of the request"})
		case first[address]:
			repeated = append(repeated, fault.Field{Location: at, Message: "the same address stands earlier in the request"})
		}
		first[address] = true
		canonical[i] = Spec{DisplayName: spec.DisplayName, Address: address}
	}
	if len(bad) > 0 {
		return nil, fault.InvalidMailboxEmail.At("a mailbox address is not valid for the domain", firstFields(bad)...)
	}
	if len(repeated) > 0 {
		return nil, fault.DuplicateMailboxEmail.At("an address occurs more than once", firstFields(repeated)...)
	}
	return canonical, nil
}

func firstFields(fields []fault.Field) []fault.Field { return fields[:min(len(fields), maxFields)] }

func address(raw, domainName string) (string, bool) {
	local, host, split := strings.Cut(raw, "@")
	if !split || !plain(local) || strings.HasSuffix(host, ".") || domain.Lookup(host) != domainName {
		return "", false
	}
	canonical := strings.ToLower(local) + "@" + domainName
	return canonical, len(canonical) <= maxAddress
}

// plain reports whether a local part is valid in an SMTP address, a sign-in name and an Exchange
// alias, without quoting. "+" is not allowed, because the platform treats it as the start of a tag.
func plain(local string) bool {
	if local == "" || len(local) > maxLocal ||
		strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return false
	}
	for _, c := range []byte(local) {
		if !alphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
