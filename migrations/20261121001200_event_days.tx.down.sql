-- SPDX-License-Identifier: Apache-2.0

DROP INDEX IF EXISTS enforcement_counts_days;
