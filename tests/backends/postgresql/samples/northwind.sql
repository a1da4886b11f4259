-- A wholesaler: no sequences, keys of text, small integers, pictures, a table that refers to itself.
CREATE TABLE categories (
    category_id smallint NOT NULL PRIMARY KEY, category_name character varying(15) NOT NULL,
    description text, picture bytea
);
CREATE TABLE customer_demographics (
    customer_type_id bpchar NOT NULL PRIMARY KEY, customer_desc text
);
CREATE TABLE customers (
    customer_id bpchar NOT NULL PRIMARY KEY, company_name character varying(40) NOT NULL,
    city character varying(15), phone character varying(24)
);
CREATE TABLE customer_customer_demo (
    customer_id bpchar NOT NULL REFERENCES customers,
    customer_type_id bpchar NOT NULL REFERENCES customer_demographics,
    PRIMARY KEY (customer_id, customer_type_id)
);
CREATE TABLE employees (
    employee_id smallint NOT NULL PRIMARY KEY, last_name character varying(20) NOT NULL,
    birth_date date, photo bytea, notes text,
    reports_to smallint REFERENCES employees
);
CREATE TABLE suppliers (
    supplier_id smallint NOT NULL PRIMARY KEY, company_name character varying(40) NOT NULL,
    homepage text
);
CREATE TABLE products (
    product_id smallint NOT NULL PRIMARY KEY, product_name character varying(40) NOT NULL,
    supplier_id smallint REFERENCES suppliers, category_id smallint REFERENCES categories,
    unit_price real, units_in_stock smallint, discontinued integer NOT NULL
);
CREATE TABLE region (
    region_id smallint NOT NULL PRIMARY KEY, region_description bpchar NOT NULL
);
CREATE TABLE shippers (
    shipper_id smallint NOT NULL PRIMARY KEY, company_name character varying(40) NOT NULL
);
CREATE TABLE orders (
    order_id smallint NOT NULL PRIMARY KEY, customer_id bpchar REFERENCES customers,
    employee_id smallint REFERENCES employees, order_date date, required_date date,
    ship_via smallint REFERENCES shippers, freight real, ship_address character varying(60)
);
CREATE TABLE territories (
    territory_id character varying(20) NOT NULL PRIMARY KEY, territory_description bpchar NOT NULL,
    region_id smallint NOT NULL REFERENCES region
);
CREATE TABLE employee_territories (
    employee_id smallint NOT NULL REFERENCES employees,
    territory_id character varying(20) NOT NULL REFERENCES territories,
    PRIMARY KEY (employee_id, territory_id)
);
CREATE TABLE order_details (
    order_id smallint NOT NULL REFERENCES orders, product_id smallint NOT NULL REFERENCES products,
    unit_price real NOT NULL, quantity smallint NOT NULL, discount real NOT NULL,
    PRIMARY KEY (order_id, product_id)
);
CREATE TABLE us_states (
    state_id smallint NOT NULL PRIMARY KEY, state_name character varying(100),
    state_abbr character varying(2)
);

INSERT INTO categories SELECT n, 'category ' || n, 'text', decode(md5(n::text), 'hex')
FROM generate_series(1, 8) AS n;
INSERT INTO customer_demographics SELECT 'T' || n, 'type' FROM generate_series(1, 3) AS n;
INSERT INTO customers SELECT 'CU' || lpad(n::text, 3, '0'), 'company ' || n, 'city', n::text
FROM generate_series(1, 90) AS n;
INSERT INTO customer_customer_demo SELECT 'CU' || lpad(n::text, 3, '0'), 'T' || 1 + n % 3
FROM generate_series(1, 40) AS n;
INSERT INTO employees SELECT n, 'name ' || n, date '1960-01-01' + n, '\x00ff', NULL, nullif(n / 2, 0)
FROM generate_series(1, 9) AS n;
INSERT INTO suppliers SELECT n, 'supplier ' || n, '#http' FROM generate_series(1, 29) AS n;
INSERT INTO products SELECT n, 'product ' || n, 1 + n % 29, 1 + n % 8, n / 3.0, n, n % 2
FROM generate_series(1, 77) AS n;
INSERT INTO region SELECT n, 'region ' || n FROM generate_series(1, 4) AS n;
INSERT INTO shippers SELECT n, 'shipper ' || n FROM generate_series(1, 6) AS n;
INSERT INTO orders
SELECT 10000 + n, 'CU' || lpad((1 + n % 90)::text, 3, '0'), 1 + n % 9, date '1996-07-04' + n, NULL,
    1 + n % 6, n * 1.5, NULL
FROM generate_series(1, 400) AS n;
INSERT INTO territories SELECT lpad(n::text, 5, '0'), 'territory ' || n, 1 + n % 4
FROM generate_series(1, 53) AS n;
INSERT INTO employee_territories SELECT 1 + n % 9, lpad(n::text, 5, '0') FROM generate_series(1, 49) AS n;
INSERT INTO order_details
SELECT 10000 + n, 1 + (n * 7 + p) % 77, n, p + 1, 0.05
FROM generate_series(1, 400) AS n, generate_series(0, 2) AS p;
INSERT INTO us_states SELECT n, 'state ' || n, 'S' || n FROM generate_series(1, 9) AS n;
