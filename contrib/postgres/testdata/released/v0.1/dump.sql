CREATE TABLE public.lending_idempotency (
    name text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    lock text NOT NULL,
    data bytea NOT NULL,
    saved_by text NOT NULL,
    saved_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.05');
CREATE TABLE public.lending_inbox (
    id bigint NOT NULL,
    name text NOT NULL,
    due timestamp with time zone,
    claim bigint,
    until timestamp with time zone,
    tries integer DEFAULT 0 NOT NULL,
    body bytea NOT NULL,
    set_aside timestamp with time zone,
    event bytea,
    letter text
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE public.lending_inbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.lending_inbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.lending_inbox_removed (
    id bigint NOT NULL,
    name text NOT NULL,
    removed text NOT NULL
);
ALTER TABLE public.lending_inbox_removed ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.lending_inbox_removed_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.lending_inbox_seen (
    name text NOT NULL,
    key bytea NOT NULL,
    at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');
CREATE TABLE public.lending_migration (
    version integer NOT NULL,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE public.lending_token (
    name text NOT NULL,
    fence bigint DEFAULT 0 NOT NULL,
    data text DEFAULT ''::text NOT NULL,
    owner text,
    lease bigint DEFAULT 0 NOT NULL,
    lease_ends timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    lease_lasts interval DEFAULT '00:00:00'::interval NOT NULL
)
WITH (fillfactor='50');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/free', 1, 'free', 'lock of free', '\x7b2264617461223a226f66200066726565227d', '6JYUZJT2X52Y5IFQJ6PPDDSJQH', '2026-11-23 10:14:01.535179+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/sent', 1, 'sent', 'lock of sent', '\x7b2264617461223a226f66200073656e74227d', 'AJGNRVLS7NFXSAZXPLKRPPVMVT', '2026-11-23 10:14:01.53551+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/in_doubt', 1, 'in_doubt', 'lock of in_doubt', '\x7b2264617461223a226f662000696e5f646f756274227d', 'HTU6SJKJUNWTGRRTBBO6SMMWQJ', '2026-11-23 10:14:01.535594+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/needs_review', 1, 'needs_review', 'lock of needs_review', '\x7b2264617461223a226f6620006e656564735f726576696577227d', '3XEYJ3YVSPOJVR5XFE54V2KOSW', '2026-11-23 10:14:01.535658+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/done', 1, 'done', 'lock of done', '\x7b2264617461223a226f662000646f6e65227d', 'MIDKAFLGTELRKYICHDS6ZZU433', '2026-11-23 10:14:01.535696+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'orders/forgotten', 1, 'forgotten', 'lock of forgotten', '\x7b2264617461223a226f662000666f72676f7474656e227d', 'AECE6HWQSL5FTRRNRV5SEXBTNI', '2026-11-23 10:14:01.53576+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/free', 1, 'free', '032db74c56cd4c01dadaded2f7881a162c7261aa7b6e9e8afdf67ef5279c104e', '\x01c99cc89e04086934df129c088b38219d5f55e3f60b0fb6d807c3057c01336baed20d0b97c90bc5b5eb17e02088dc2190b8d1be808d3e5319f0b98c37e38c1b235b021c686121', 'LQDNCBQAFQ3RKNQSLXAE7C7KCC', '2026-11-23 10:14:01.535822+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/sent', 1, 'sent', '7d38ab359d3052addb8e7994fb93bdaea5bd58acbff55fedf4326cdcf310a6d4', '\x012a1322eb56d63228b5d40b0c3e503ace2b7a889367afba0988e29ddba9bc3179c3c798dca098bf6c965121902f8a740ca7dc1525d07414c5e505075170302248ccbdae9ed18c', 'MFHPH5DXKGMYJCOWH3VCI7MKQ6', '2026-11-23 10:14:01.535858+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/in_doubt', 1, 'in_doubt', 'ce1d396cc8c1f4f39d92a966a1fc7fff3564c4bbe5900074a9ed3e0fd7516655', '\x017260d8f196432d53a4c7600d7d9f01b4afe42ddce99449ff154136ecd2c3f6283140f6a90d35107c930e1f369252f325295d42dbfe6da3dfb0a2d67e2b1b5d5755b4e5d6ac3862bf5ad2a0594b19', '4VNWUWG2F36A3XDXCL5HYIYBJ4', '2026-11-23 10:14:01.535936+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/needs_review', 1, 'needs_review', 'c53b408f4292ec42c72afe63ccfd6f8dfc1c06e4284b05003d7c9053a2c5efe6', '\x01d14a6c625fbe28d4ac9ad3bc38dfd51667ed92494e4e6fc34b686e86a95087163fe1416f719f0eda083e2587407817c686170f131c0e2c4e571d0f483fdd7d5b2f2a7c932eb2938101dddb520b450b09f2e18607c1b6', 'QDVW2VDWTZUEZQSCXH5VNQEBP4', '2026-11-23 10:14:01.535971+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/done', 1, 'done', '83e3919bd7a7f38de0e3a1a2e84b644e5b5eb8636efec9640430003c0421b51f', '\x0129a0cf54541193278215d0c4b757644cd0675ce4e1963a5398b171bd928ad0e25844397c540e59f1e477fee1c8144fe4daf444b6fbf52693c03fdf5fc5bfc2ac58f2e0378481', 'IE6PCDXGTBRPBSW67TDUU6Y63W', '2026-11-23 10:14:01.536055+00');
INSERT INTO public.lending_idempotency VALUES ('entries', 'encrypted orders/forgotten', 1, 'forgotten', '3d5adc3755dbf9bb084f4186215253705d213271299ed3192e6668b16a98b532', '\x013eb8dec595e1a9e242e1ff70283d3a07149c1f59274a3d736fc13209da906432e926cd0c982c84a49662563e4b1cd7402f7230e7057ca3302ed169b2f1326397d3ea5720127aa62a299b7bbc9a9819ba', 'EC2X5DUJVVGTWGCLRVAVDO5YQK', '2026-11-23 10:14:01.536089+00');
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (2, 'plain', NULL, NULL, '2026-11-23 10:14:02.812819+00', 1, '\x7b22776562686f6f6b4576656e74223a2244656164222c202264617461223a7b226f7470223a22373331393034227d2c20226372656174696f6e54696d65557463223a22323032362d31312d32335431303a30303a30302e31323334353637227d', '2026-11-23 10:14:01.528694+00', '\x44656164', '{"id":"","key":"9f7ff0fb562d7f28059d6075106ea501d2e86ce55978160449654c387cd517f5","event":"Dead","created":"2026-11-23T10:00:00.1234567Z","setAside":"0001-01-01T00:00:00Z","cause":"a failure with [redacted]","tries":1}');
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (3, 'plain', '2026-11-23 10:14:01.528832+00', 4538382398548011244, '2026-11-23 10:14:02.85905+00', 1, '\x7b22776562686f6f6b4576656e74223a2252756e6e696e67222c202264617461223a7b226f7470223a22373331393034227d2c20226372656174696f6e54696d65557463223a22323032362d31312d32335431303a30303a30302e31323334353637227d', NULL, NULL, NULL);
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (4, 'plain', '2026-11-23 10:14:01.629872+00', NULL, '2026-11-23 10:14:02.801356+00', 1, '\x7b22776562686f6f6b4576656e74223a224c61746572222c202264617461223a7b226f7470223a22373331393034227d2c20226372656174696f6e54696d65557463223a22323032362d31312d32335431303a30303a30302e31323334353637227d', NULL, NULL, NULL);
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (5, 'plain', '2026-11-23 10:14:01.53002+00', NULL, NULL, 0, '\x7b22776562686f6f6b4576656e74223a2257616974696e67222c202264617461223a7b226f7470223a22373331393034227d2c20226372656174696f6e54696d65557463223a22323032362d31312d32335431303a30303a30302e31323334353637227d', NULL, NULL, NULL);
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (7, 'encrypted', NULL, NULL, '2026-11-23 10:14:02.840165+00', 1, '\x00016c1dc2df28084e2aea7ccb5de2916ba15d20a3e287b4e6bfeaad7dd975cf63e9581bec167f251bc54da03cab933dcbfbf15a83d7a8d5bf2a6b3392a39294655c7a07e98323df59e50b2505135faf1bab81dc3985bf4e722b980f0834629159527bd62dfc5801e9be066983acb50fe5799dc926290ab2a096ea92e7b6a1', '2026-11-23 10:14:01.533367+00', '\x44656164', '{"id":"","key":"9f7ff0fb562d7f28059d6075106ea501d2e86ce55978160449654c387cd517f5","event":"Dead","created":"2026-11-23T10:00:00.1234567Z","setAside":"0001-01-01T00:00:00Z","cause":"a failure with [redacted]","tries":1}');
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (8, 'encrypted', '2026-11-23 10:14:01.533483+00', 2342553789078089775, '2026-11-23 10:14:03.012957+00', 1, '\x0001d32f087d34526ea891a80c51b19ec934c7c88ad86e7e04997ab835a71bd73a829760b53c2da037d9a709005535d244563e73e419f89e8111dc8dcca931a6ce5bdd76a2f0c8f8cf72e2443d42359755ce788164d4f5c435354573376bde637ec816102f9526da2d858e05b85d06993ea8d9305ae78ed7cf07c65cd53d49a17139', NULL, NULL, NULL);
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (9, 'encrypted', '2026-11-23 10:14:01.634766+00', NULL, '2026-11-23 10:14:02.754252+00', 1, '\x0001cad6bdc499a65df1664bc222a86e9705fc493d7b53e692237f55b9223e56bb485b26f3daf074d566f33b0920f4e7ad8725f99bab26775fd4eb9aa3f7f3db86e1cbff001db28ec21977a9b5f2c6e205afc2d998bb0a3b57093dd9f0bcd5cc0a05727013d3d69e7b6f9eeecd94e2bfab671ab807da7a71e58912bba1a0f652', NULL, NULL, NULL);
INSERT INTO public.lending_inbox OVERRIDING SYSTEM VALUE VALUES (10, 'encrypted', '2026-11-23 10:14:01.534894+00', NULL, NULL, 0, '\x0001dc005312fc202036b9ca8015256e0d7e93d63c0b65a9a9f573f1ae57ad8181289080ff63b0001c8d7bd099c6321d09a18dfa494cee415a3cd43bd54e8ef19bb7536ed40fee17c10a0a8cb5a80df48ccba6d0d6458471f6b95658cec020158902b6fbce3c7930a77002c51bc297d51ed0bc84529a67eeb15c42cddc24dc5fee9a', NULL, NULL, NULL);
INSERT INTO public.lending_inbox_removed OVERRIDING SYSTEM VALUE VALUES (1, 'plain', '{"by":"kim","why":"a release","at":"2026-11-23T10:14:01.526820613Z","id":"1795428841525227-1","key":"6de8c65f44b34e57bd8347fc963a2c6eefb61b30f2bba6d59e807ff28b7b0d57","event":"Dropped"}');
INSERT INTO public.lending_inbox_removed OVERRIDING SYSTEM VALUE VALUES (2, 'encrypted', '{"by":"kim","why":"a release","at":"2026-11-23T10:14:01.532360987Z","id":"1795428841531348-6","key":"6de8c65f44b34e57bd8347fc963a2c6eefb61b30f2bba6d59e807ff28b7b0d57","event":"Dropped"}');
INSERT INTO public.lending_inbox_seen VALUES ('plain', '\x6de8c65f44b34e57bd8347fc963a2c6eefb61b30f2bba6d59e807ff28b7b0d57', '2026-11-23 10:14:01.51942+00');
INSERT INTO public.lending_inbox_seen VALUES ('plain', '\x9f7ff0fb562d7f28059d6075106ea501d2e86ce55978160449654c387cd517f5', '2026-11-23 10:14:01.527748+00');
INSERT INTO public.lending_inbox_seen VALUES ('plain', '\x85acc8a94bc87cbb1bb458113006a54e79fcb7936f5c4fb7289d0776726f6b7d', '2026-11-23 10:14:01.528832+00');
INSERT INTO public.lending_inbox_seen VALUES ('plain', '\xdc7dad5420074a635d0c076d35aa81051aaf115565e31f83af14ce3c39e58f57', '2026-11-23 10:14:01.529303+00');
INSERT INTO public.lending_inbox_seen VALUES ('plain', '\x65811a52dcf79245317f1ed350d0597b2c45df2cde3954519ecc9eaf58a83663', '2026-11-23 10:14:01.53002+00');
INSERT INTO public.lending_inbox_seen VALUES ('encrypted', '\x6de8c65f44b34e57bd8347fc963a2c6eefb61b30f2bba6d59e807ff28b7b0d57', '2026-11-23 10:14:01.530213+00');
INSERT INTO public.lending_inbox_seen VALUES ('encrypted', '\x9f7ff0fb562d7f28059d6075106ea501d2e86ce55978160449654c387cd517f5', '2026-11-23 10:14:01.532827+00');
INSERT INTO public.lending_inbox_seen VALUES ('encrypted', '\x85acc8a94bc87cbb1bb458113006a54e79fcb7936f5c4fb7289d0776726f6b7d', '2026-11-23 10:14:01.533483+00');
INSERT INTO public.lending_inbox_seen VALUES ('encrypted', '\xdc7dad5420074a635d0c076d35aa81051aaf115565e31f83af14ce3c39e58f57', '2026-11-23 10:14:01.534192+00');
INSERT INTO public.lending_inbox_seen VALUES ('encrypted', '\x65811a52dcf79245317f1ed350d0597b2c45df2cde3954519ecc9eaf58a83663', '2026-11-23 10:14:01.534894+00');
INSERT INTO public.lending_migration VALUES (1, '2026-11-23 10:14:01.508262+00');
INSERT INTO public.lending_migration VALUES (2, '2026-11-23 10:14:01.51514+00');
INSERT INTO public.lending_token VALUES ('token', 1700000000000000, 'a token', 'an owner that has ended', 1795428841536667, '2026-11-23 10:14:01.537667+00', '00:00:00.001');
SELECT pg_catalog.setval('public.lending_inbox_id_seq', 10, true);
SELECT pg_catalog.setval('public.lending_inbox_removed_id_seq', 2, true);
ALTER TABLE ONLY public.lending_idempotency
    ADD CONSTRAINT lending_idempotency_pkey PRIMARY KEY (name, key);
ALTER TABLE ONLY public.lending_inbox
    ADD CONSTRAINT lending_inbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.lending_inbox_removed
    ADD CONSTRAINT lending_inbox_removed_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.lending_inbox_seen
    ADD CONSTRAINT lending_inbox_seen_pkey PRIMARY KEY (name, key);
ALTER TABLE ONLY public.lending_migration
    ADD CONSTRAINT lending_migration_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.lending_token
    ADD CONSTRAINT lending_token_pkey PRIMARY KEY (name);
CREATE UNIQUE INDEX lending_idempotency_name_lock_idx ON public.lending_idempotency USING btree (name, lock) WHERE (lock <> ''::text);
CREATE INDEX lending_idempotency_name_state_saved_at_key_idx ON public.lending_idempotency USING btree (name, state, saved_at, key);
CREATE INDEX lending_inbox_name_due_id_idx ON public.lending_inbox USING btree (name, due, id) WHERE (due IS NOT NULL);
CREATE INDEX lending_inbox_name_set_aside_id_idx ON public.lending_inbox USING btree (name, set_aside, id) WHERE (due IS NULL);
CREATE INDEX lending_inbox_removed_name_id_idx ON public.lending_inbox_removed USING btree (name, id);
