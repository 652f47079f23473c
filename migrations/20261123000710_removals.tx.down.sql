-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS removed_mailboxes;
--bun:split
DROP TABLE IF EXISTS forgotten_domains;
