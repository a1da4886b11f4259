-- A video store: sequences that no column owns, an enum, a domain, a partitioned table whose partitions
-- have keys of their own, text search, arrays, triggers, views, and two tables that refer to each other.
CREATE TYPE public.mpaa_rating AS ENUM ('G', 'PG', 'PG-13', 'R', 'NC-17');
CREATE DOMAIN public.year AS integer CONSTRAINT year_check CHECK (VALUE >= 1901 AND VALUE <= 2155);

CREATE FUNCTION public.last_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.last_update = CURRENT_TIMESTAMP;
    RETURN NEW;
END $$;
CREATE FUNCTION public.in_stock(wanted integer) RETURNS boolean LANGUAGE sql STABLE AS
    'SELECT wanted > 0';
CREATE FUNCTION public.joined(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT concat_ws(', ', nullif($1, ''), nullif($2, '')) $$;
CREATE AGGREGATE public.listed(text) (SFUNC = public.joined, STYPE = text);

CREATE SEQUENCE public.actor_actor_id_seq;
CREATE SEQUENCE public.category_category_id_seq;
CREATE SEQUENCE public.country_country_id_seq;
CREATE SEQUENCE public.city_city_id_seq;
CREATE SEQUENCE public.address_address_id_seq;
CREATE SEQUENCE public.language_language_id_seq;
CREATE SEQUENCE public.film_film_id_seq;
CREATE SEQUENCE public.inventory_inventory_id_seq;
CREATE SEQUENCE public.store_store_id_seq;
CREATE SEQUENCE public.staff_staff_id_seq;
CREATE SEQUENCE public.customer_customer_id_seq;
CREATE SEQUENCE public.rental_rental_id_seq;
CREATE SEQUENCE public.payment_payment_id_seq;

CREATE TABLE public.actor (
    actor_id integer DEFAULT nextval('public.actor_actor_id_seq'::regclass) PRIMARY KEY,
    first_name text NOT NULL, last_name text NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE INDEX idx_actor_last_name ON public.actor (last_name);
CREATE TABLE public.category (
    category_id integer DEFAULT nextval('public.category_category_id_seq'::regclass) PRIMARY KEY,
    name text NOT NULL, last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.country (
    country_id integer DEFAULT nextval('public.country_country_id_seq'::regclass) PRIMARY KEY,
    country text NOT NULL, last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.city (
    city_id integer DEFAULT nextval('public.city_city_id_seq'::regclass) PRIMARY KEY,
    city text NOT NULL, country_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.address (
    address_id integer DEFAULT nextval('public.address_address_id_seq'::regclass) PRIMARY KEY,
    address text NOT NULL, district text NOT NULL, city_id integer NOT NULL, phone text NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.language (
    language_id integer DEFAULT nextval('public.language_language_id_seq'::regclass) PRIMARY KEY,
    name character(20) NOT NULL, last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.film (
    film_id integer DEFAULT nextval('public.film_film_id_seq'::regclass) PRIMARY KEY,
    title text NOT NULL, description text, release_year public.year,
    language_id integer NOT NULL, original_language_id integer,
    rental_duration smallint DEFAULT 3 NOT NULL, rental_rate numeric(4,2) DEFAULT 4.99 NOT NULL,
    rating public.mpaa_rating DEFAULT 'G'::public.mpaa_rating,
    special_features text[], fulltext tsvector NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE INDEX film_fulltext_idx ON public.film USING gist (fulltext);
CREATE TABLE public.film_actor (
    actor_id integer NOT NULL, film_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL, PRIMARY KEY (actor_id, film_id)
);
CREATE TABLE public.film_category (
    film_id integer NOT NULL, category_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL, PRIMARY KEY (film_id, category_id)
);
CREATE TABLE public.store (
    store_id integer DEFAULT nextval('public.store_store_id_seq'::regclass) PRIMARY KEY,
    manager_staff_id integer NOT NULL, address_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE UNIQUE INDEX idx_unq_manager_staff_id ON public.store (manager_staff_id);
CREATE TABLE public.staff (
    staff_id integer DEFAULT nextval('public.staff_staff_id_seq'::regclass) PRIMARY KEY,
    first_name text NOT NULL, address_id integer NOT NULL, store_id integer NOT NULL,
    active boolean DEFAULT true NOT NULL, picture bytea,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.inventory (
    inventory_id integer DEFAULT nextval('public.inventory_inventory_id_seq'::regclass) PRIMARY KEY,
    film_id integer NOT NULL, store_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE TABLE public.customer (
    customer_id integer DEFAULT nextval('public.customer_customer_id_seq'::regclass) PRIMARY KEY,
    store_id integer NOT NULL, first_name text NOT NULL, address_id integer NOT NULL,
    activebool boolean DEFAULT true NOT NULL, create_date date DEFAULT CURRENT_DATE NOT NULL,
    last_update timestamptz DEFAULT now()
);
CREATE TABLE public.rental (
    rental_id integer DEFAULT nextval('public.rental_rental_id_seq'::regclass) PRIMARY KEY,
    rental_date timestamptz NOT NULL, inventory_id integer NOT NULL, customer_id integer NOT NULL,
    return_date timestamptz, staff_id integer NOT NULL,
    last_update timestamptz DEFAULT now() NOT NULL
);
CREATE UNIQUE INDEX idx_unq_rental ON public.rental (rental_date, inventory_id, customer_id);
CREATE TABLE public.payment (
    payment_id integer DEFAULT nextval('public.payment_payment_id_seq'::regclass) NOT NULL,
    customer_id integer NOT NULL, staff_id integer NOT NULL, rental_id integer NOT NULL,
    amount numeric(5,2) NOT NULL, payment_date timestamptz NOT NULL,
    PRIMARY KEY (payment_date, payment_id)
) PARTITION BY RANGE (payment_date);
CREATE TABLE public.payment_p2026_01 PARTITION OF public.payment
    FOR VALUES FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00');
CREATE TABLE public.payment_p2026_02 PARTITION OF public.payment
    FOR VALUES FROM ('2026-02-01 00:00+00') TO ('2026-03-01 00:00+00');

INSERT INTO public.actor (first_name, last_name)
SELECT 'first ' || n, 'last ' || n FROM generate_series(1, 40) AS n;
INSERT INTO public.category (name) SELECT 'category ' || n FROM generate_series(1, 8) AS n;
INSERT INTO public.country (country) SELECT 'country ' || n FROM generate_series(1, 9) AS n;
INSERT INTO public.city (city, country_id)
SELECT 'city ' || n, 1 + n % 9 FROM generate_series(1, 30) AS n;
INSERT INTO public.address (address, district, city_id, phone)
SELECT n || ' Street', 'd', 1 + n % 30, n::text FROM generate_series(1, 60) AS n;
INSERT INTO public.language (name) SELECT 'language ' || n FROM generate_series(1, 5) AS n;
INSERT INTO public.film (title, release_year, language_id, rating, special_features, fulltext)
SELECT 'film ' || n, 1950 + n, 1 + n % 5, (enum_range(NULL::public.mpaa_rating))[1 + n % 5],
    ARRAY['Trailers', NULL, 'it''s ' || n], to_tsvector('simple', 'film ' || n)
FROM generate_series(1, 50) AS n;
INSERT INTO public.film_actor (actor_id, film_id)
SELECT 1 + n % 40, 1 + n % 50 FROM generate_series(1, 150) AS n ON CONFLICT DO NOTHING;
INSERT INTO public.film_category (film_id, category_id)
SELECT n, 1 + n % 8 FROM generate_series(1, 50) AS n;
INSERT INTO public.store (manager_staff_id, address_id) VALUES (1, 1), (2, 2);
INSERT INTO public.staff (first_name, address_id, store_id, picture)
VALUES ('Ada', 3, 1, '\x89504e47'), ('Bob', 4, 2, NULL);
INSERT INTO public.inventory (film_id, store_id)
SELECT 1 + n % 50, 1 + n % 2 FROM generate_series(1, 120) AS n;
INSERT INTO public.customer (store_id, first_name, address_id)
SELECT 1 + n % 2, 'customer ' || n, 1 + n % 60 FROM generate_series(1, 70) AS n;
INSERT INTO public.rental (rental_date, inventory_id, customer_id, staff_id)
SELECT timestamptz '2026-01-01 00:00+00' + n * interval '5 hours', 1 + n % 120, 1 + n % 70, 1 + n % 2
FROM generate_series(1, 200) AS n;
INSERT INTO public.payment (customer_id, staff_id, rental_id, amount, payment_date)
SELECT 1 + n % 70, 1 + n % 2, n, n / 10.0,
    timestamptz '2026-01-01 00:00+00' + n * interval '5 hours'
FROM generate_series(1, 200) AS n;

ALTER TABLE public.city ADD CONSTRAINT city_country_id_fkey
    FOREIGN KEY (country_id) REFERENCES public.country ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE public.address ADD FOREIGN KEY (city_id) REFERENCES public.city;
ALTER TABLE public.film ADD FOREIGN KEY (language_id) REFERENCES public.language;
ALTER TABLE public.film ADD FOREIGN KEY (original_language_id) REFERENCES public.language;
ALTER TABLE public.film_actor ADD FOREIGN KEY (actor_id) REFERENCES public.actor;
ALTER TABLE public.film_actor ADD FOREIGN KEY (film_id) REFERENCES public.film;
ALTER TABLE public.film_category ADD FOREIGN KEY (film_id) REFERENCES public.film;
ALTER TABLE public.film_category ADD FOREIGN KEY (category_id) REFERENCES public.category;
ALTER TABLE public.store ADD FOREIGN KEY (address_id) REFERENCES public.address;
ALTER TABLE public.store ADD FOREIGN KEY (manager_staff_id) REFERENCES public.staff;
ALTER TABLE public.staff ADD FOREIGN KEY (address_id) REFERENCES public.address;
ALTER TABLE public.staff ADD FOREIGN KEY (store_id) REFERENCES public.store;
ALTER TABLE public.inventory ADD FOREIGN KEY (film_id) REFERENCES public.film;
ALTER TABLE public.inventory ADD FOREIGN KEY (store_id) REFERENCES public.store;
ALTER TABLE public.customer ADD FOREIGN KEY (address_id) REFERENCES public.address;
ALTER TABLE public.customer ADD FOREIGN KEY (store_id) REFERENCES public.store;
ALTER TABLE public.rental ADD FOREIGN KEY (customer_id) REFERENCES public.customer;
ALTER TABLE public.rental ADD FOREIGN KEY (inventory_id) REFERENCES public.inventory;
ALTER TABLE public.rental ADD FOREIGN KEY (staff_id) REFERENCES public.staff;
ALTER TABLE public.payment_p2026_01 ADD FOREIGN KEY (customer_id) REFERENCES public.customer;
ALTER TABLE public.payment_p2026_01 ADD FOREIGN KEY (rental_id) REFERENCES public.rental;
ALTER TABLE public.payment_p2026_02 ADD FOREIGN KEY (customer_id) REFERENCES public.customer;
ALTER TABLE public.payment_p2026_02 ADD FOREIGN KEY (rental_id) REFERENCES public.rental;

CREATE TRIGGER last_updated BEFORE UPDATE ON public.actor
    FOR EACH ROW EXECUTE FUNCTION public.last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON public.film
    FOR EACH ROW EXECUTE FUNCTION public.last_updated();
CREATE TRIGGER film_fulltext_trigger BEFORE INSERT OR UPDATE ON public.film
    FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger('fulltext', 'pg_catalog.english', 'title');
CREATE VIEW public.actor_info AS
    SELECT a.actor_id, a.first_name, count(*) AS films
    FROM public.actor AS a JOIN public.film_actor AS f USING (actor_id) GROUP BY a.actor_id;
CREATE VIEW public.staff_list AS
    SELECT s.staff_id, s.first_name, a.phone
    FROM public.staff AS s JOIN public.address AS a USING (address_id);
CREATE MATERIALIZED VIEW public.rental_by_category AS
    SELECT c.name, count(*) AS rentals FROM public.rental
    JOIN public.inventory USING (inventory_id) JOIN public.film_category USING (film_id)
    JOIN public.category AS c USING (category_id) GROUP BY c.name;
