// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"strconv"

	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/dnsconnection"
)

type dnsConnectionRow struct {
	ConnectionID string `json:"connection_id"`
	AccountID    string `json:"account_id"`
	Provider     string `json:"provider"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	ZonesVisible int    `json:"zones_visible"`
	TestedAt     string `json:"tested_at"`
	CreatedAt    string `json:"created_at"`
}

func dnsConnectionOf(c dnsconnection.Connection) dnsConnectionRow {
	return dnsConnectionRow{
		c.ID, string(c.AccountID), c.Provider, c.Name, string(c.Status), c.ZonesVisible, cli.Stamp(c.TestedAt), cli.Stamp(c.CreatedAt),
	}
}

func (r dnsConnectionRow) Columns() [][2]string {
	return [][2]string{
		{"CONNECTION", r.ConnectionID}, {"ACCOUNT", r.AccountID}, {"PROVIDER", r.Provider}, {"NAME", cmp.Or(r.Name, "-")},
		{"STATUS", r.Status}, {"ZONES", strconv.Itoa(r.ZonesVisible)}, {"TESTED", r.TestedAt}, {"CREATED", r.CreatedAt},
	}
}

type removedConnectionRow struct {
	ConnectionID string `json:"connection_id"`
	AccountID    string `json:"account_id"`
	Provider     string `json:"provider"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	RemovedAt    string `json:"removed_at"`
}

func (r removedConnectionRow) Columns() [][2]string {
	return [][2]string{
		{"CONNECTION", r.ConnectionID}, {"ACCOUNT", r.AccountID}, {"PROVIDER", r.Provider}, {"NAME", cmp.Or(r.Name, "-")},
		{"STATUS", r.Status}, {"REMOVED", r.RemovedAt},
	}
}
