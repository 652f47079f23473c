// SPDX-License-Identifier: Apache-2.0

package tenant

import "github.com/tenantry/tenantry/core/ident"

// NoGUID is the GUID that no tenant has.
const NoGUID GUID = ident.Zero

// ParseGUID returns the canonical GUID of raw and whether it is one.
func ParseGUID(raw string) (GUID, bool) {
	id, ok := ident.Parse(raw)
	return GUID(id), ok
}

// LookupGUID returns the GUID to look up for raw: NoGUID when it is malformed,
// so that it takes the same path as an unknown one.
func LookupGUID(raw string) GUID { return GUID(ident.Lookup(raw)) }
