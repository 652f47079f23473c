// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// senders reads a list of senders, which comes grouped by folders. What is not
// understood breaks the listing: a sender that is left out would pass for gone.
func senders(data json.RawMessage) ([]sdk.Account, error) {
	var list []json.RawMessage
	var object members
	switch {
	case json.Unmarshal(data, &list) == nil && list != nil:
		return inGroup(list)
	case json.Unmarshal(data, &object) != nil || object == nil:
		return nil, sdk.BrokenBy("no_senders")
	}
	if list, ok := object.list(groupNames); ok {
		return inGroup(list)
	}
	var all []sdk.Account
	for _, folder := range slices.Sorted(maps.Keys(object)) {
		list, ok := object.list([]string{folder})
		if !ok {
			return nil, sdk.BrokenBy("no_senders")
		}
		some, err := inGroup(list)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// inGroup reads senders, or groups of them.
func inGroup(list []json.RawMessage) ([]sdk.Account, error) {
	var all []sdk.Account
	for _, raw := range list {
		var object members
		if json.Unmarshal(raw, &object) != nil {
			return nil, sdk.BrokenBy("sender_of_another_shape")
		}
		if inner, ok := object.list(groupNames); ok {
			some, err := inGroup(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
			continue
		}
		a := account(object)
		if a.ID == "" || !strings.Contains(a.Address, "@") {
			return nil, sdk.BrokenBy("sender_without_address")
		}
		all = append(all, a)
	}
	return all, nil
}

// account is the sender as the port has it.
func account(m members) sdk.Account {
	status := strings.ToLower(m.text(statusNames))
	s, known := statuses[status]
	a := sdk.Account{ID: m.text(idNames), Address: m.text(addressNames), Name: m.text(nameNames), State: s.state, Paused: s.paused}
	if !known {
		a.State, a.Reason = sdk.AccountOther, "unknown_status"
	}
	if m.says(failureNames) {
		a.State, a.Paused = sdk.AccountFailed, false
	}
	if a.State == sdk.AccountFailed {
		a.HasError, a.Reason = true, "connection_error"
	}
	a.Stamp = m.text(changeNames) + " " + status + " " + string(a.State)
	return a
}
