-- The shape of Sakila, with a handful of rows.
CREATE TABLE actor (
    actor_id smallint unsigned NOT NULL AUTO_INCREMENT,
    first_name varchar(45) NOT NULL,
    last_name varchar(45) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (actor_id),
    KEY idx_actor_last_name (last_name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE country (
    country_id smallint unsigned NOT NULL AUTO_INCREMENT,
    country varchar(50) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (country_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE city (
    city_id smallint unsigned NOT NULL AUTO_INCREMENT,
    city varchar(50) NOT NULL,
    country_id smallint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (city_id),
    KEY idx_fk_country_id (country_id),
    CONSTRAINT fk_city_country FOREIGN KEY (country_id) REFERENCES country (country_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE address (
    address_id smallint unsigned NOT NULL AUTO_INCREMENT,
    address varchar(50) NOT NULL,
    address2 varchar(50) DEFAULT NULL,
    district varchar(20) NOT NULL,
    city_id smallint unsigned NOT NULL,
    postal_code varchar(10) DEFAULT NULL,
    phone varchar(20) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (address_id),
    KEY idx_fk_city_id (city_id),
    CONSTRAINT fk_address_city FOREIGN KEY (city_id) REFERENCES city (city_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE category (
    category_id tinyint unsigned NOT NULL AUTO_INCREMENT,
    name varchar(25) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (category_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE language (
    language_id tinyint unsigned NOT NULL AUTO_INCREMENT,
    name char(20) NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (language_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE film (
    film_id smallint unsigned NOT NULL AUTO_INCREMENT,
    title varchar(128) NOT NULL,
    description text DEFAULT NULL,
    release_year year DEFAULT NULL,
    language_id tinyint unsigned NOT NULL,
    original_language_id tinyint unsigned DEFAULT NULL,
    rental_duration tinyint unsigned NOT NULL DEFAULT 3,
    rental_rate decimal(4, 2) NOT NULL DEFAULT 4.99,
    length smallint unsigned DEFAULT NULL,
    replacement_cost decimal(5, 2) NOT NULL DEFAULT 19.99,
    rating enum('G', 'PG', 'PG-13', 'R', 'NC-17') DEFAULT 'G',
    special_features set('Trailers', 'Commentaries', 'Deleted Scenes', 'Behind the Scenes') DEFAULT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (film_id),
    KEY idx_title (title),
    KEY idx_fk_language_id (language_id),
    KEY idx_fk_original_language_id (original_language_id),
    CONSTRAINT fk_film_language FOREIGN KEY (language_id) REFERENCES language (language_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_film_language_original FOREIGN KEY (original_language_id)
        REFERENCES language (language_id) ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE film_actor (
    actor_id smallint unsigned NOT NULL,
    film_id smallint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (actor_id, film_id),
    KEY idx_fk_film_id (film_id),
    CONSTRAINT fk_film_actor_actor FOREIGN KEY (actor_id) REFERENCES actor (actor_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_film_actor_film FOREIGN KEY (film_id) REFERENCES film (film_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE film_category (
    film_id smallint unsigned NOT NULL,
    category_id tinyint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (film_id, category_id),
    CONSTRAINT fk_film_category_film FOREIGN KEY (film_id) REFERENCES film (film_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_film_category_category FOREIGN KEY (category_id) REFERENCES category (category_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE film_text (
    film_id smallint NOT NULL,
    title varchar(255) NOT NULL,
    description text,
    PRIMARY KEY (film_id),
    FULLTEXT KEY idx_title_description (title, description)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE store (
    store_id tinyint unsigned NOT NULL AUTO_INCREMENT,
    manager_staff_id tinyint unsigned NOT NULL,
    address_id smallint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (store_id),
    UNIQUE KEY idx_unique_manager (manager_staff_id),
    KEY idx_fk_address_id (address_id),
    CONSTRAINT fk_store_address FOREIGN KEY (address_id) REFERENCES address (address_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE staff (
    staff_id tinyint unsigned NOT NULL AUTO_INCREMENT,
    first_name varchar(45) NOT NULL,
    last_name varchar(45) NOT NULL,
    address_id smallint unsigned NOT NULL,
    picture blob DEFAULT NULL,
    email varchar(50) DEFAULT NULL,
    store_id tinyint unsigned NOT NULL,
    active boolean NOT NULL DEFAULT TRUE,
    username varchar(16) NOT NULL,
    password varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (staff_id),
    KEY idx_fk_store_id (store_id),
    KEY idx_fk_address_id (address_id),
    CONSTRAINT fk_staff_store FOREIGN KEY (store_id) REFERENCES store (store_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_staff_address FOREIGN KEY (address_id) REFERENCES address (address_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE customer (
    customer_id smallint unsigned NOT NULL AUTO_INCREMENT,
    store_id tinyint unsigned NOT NULL,
    first_name varchar(45) NOT NULL,
    last_name varchar(45) NOT NULL,
    email varchar(50) DEFAULT NULL,
    address_id smallint unsigned NOT NULL,
    active boolean NOT NULL DEFAULT TRUE,
    create_date datetime NOT NULL,
    last_update timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (customer_id),
    KEY idx_fk_store_id (store_id),
    KEY idx_fk_address_id (address_id),
    KEY idx_last_name (last_name),
    CONSTRAINT fk_customer_address FOREIGN KEY (address_id) REFERENCES address (address_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_customer_store FOREIGN KEY (store_id) REFERENCES store (store_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE inventory (
    inventory_id mediumint unsigned NOT NULL AUTO_INCREMENT,
    film_id smallint unsigned NOT NULL,
    store_id tinyint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (inventory_id),
    KEY idx_fk_film_id (film_id),
    KEY idx_store_id_film_id (store_id, film_id),
    CONSTRAINT fk_inventory_store FOREIGN KEY (store_id) REFERENCES store (store_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_inventory_film FOREIGN KEY (film_id) REFERENCES film (film_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE rental (
    rental_id int NOT NULL AUTO_INCREMENT,
    rental_date datetime NOT NULL,
    inventory_id mediumint unsigned NOT NULL,
    customer_id smallint unsigned NOT NULL,
    return_date datetime DEFAULT NULL,
    staff_id tinyint unsigned NOT NULL,
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (rental_id),
    UNIQUE KEY rental_date (rental_date, inventory_id, customer_id),
    KEY idx_fk_inventory_id (inventory_id),
    KEY idx_fk_customer_id (customer_id),
    KEY idx_fk_staff_id (staff_id),
    CONSTRAINT fk_rental_staff FOREIGN KEY (staff_id) REFERENCES staff (staff_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_rental_inventory FOREIGN KEY (inventory_id) REFERENCES inventory (inventory_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_rental_customer FOREIGN KEY (customer_id) REFERENCES customer (customer_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE payment (
    payment_id smallint unsigned NOT NULL AUTO_INCREMENT,
    customer_id smallint unsigned NOT NULL,
    staff_id tinyint unsigned NOT NULL,
    rental_id int DEFAULT NULL,
    amount decimal(5, 2) NOT NULL,
    payment_date datetime NOT NULL,
    last_update timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (payment_id),
    KEY idx_fk_staff_id (staff_id),
    KEY idx_fk_customer_id (customer_id),
    CONSTRAINT fk_payment_rental FOREIGN KEY (rental_id) REFERENCES rental (rental_id)
        ON DELETE SET NULL ON UPDATE CASCADE,
    CONSTRAINT fk_payment_customer FOREIGN KEY (customer_id) REFERENCES customer (customer_id)
        ON DELETE RESTRICT ON UPDATE CASCADE,
    CONSTRAINT fk_payment_staff FOREIGN KEY (staff_id) REFERENCES staff (staff_id)
        ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT INTO actor (first_name, last_name) VALUES ('Ann', 'O''Hara'), ('Bo', 'Zapata');
INSERT INTO country (country) VALUES ('Chile'), ('Côte d''Ivoire');
INSERT INTO city (city, country_id) VALUES ('Arica', 1), ('Bouaké', 2);
INSERT INTO address (address, district, city_id, phone) VALUES ('1 Main', 'North', 1, '1'), ('2 Main', '', 2, '2');
INSERT INTO category (name) VALUES ('Drama'), ('Music');
INSERT INTO language (name) VALUES ('English'), ('Français');
INSERT INTO film (title, description, release_year, language_id, length, rating, special_features) VALUES ('First', 'A film', 2006, 1, 90, 'PG-13', 'Trailers,Deleted Scenes'), ('Second', NULL, NULL, 2, NULL, 'R', ''), ('Third', '', 1999, 1, 1, NULL, NULL);
INSERT INTO film_actor (actor_id, film_id) VALUES (1, 1), (2, 1), (2, 3);
INSERT INTO film_category (film_id, category_id) VALUES (1, 1), (3, 2);
INSERT INTO film_text VALUES (1, 'First', 'A film'), (2, 'Second', NULL);
INSERT INTO store (manager_staff_id, address_id) VALUES (1, 1), (2, 2);
INSERT INTO staff (first_name, last_name, address_id, picture, store_id, active, username) VALUES ('Mike', 'H', 1, x'89504e4700ff', 1, 1, 'mike'), ('Jon', 'S', 2, NULL, 2, 0, 'jon');
INSERT INTO customer (store_id, first_name, last_name, address_id, create_date) VALUES (1, 'Mary', 'Smith', 1, '2006-02-14 22:04:36'), (2, 'Li', '李', 2, '2006-02-14 22:04:37');
INSERT INTO inventory (film_id, store_id) VALUES (1, 1), (2, 2), (3, 1);
INSERT INTO rental (rental_date, inventory_id, customer_id, staff_id) VALUES ('2005-05-24 22:53:30', 1, 1, 1), ('2005-05-24 22:54:33', 2, 2, 2);
INSERT INTO payment (customer_id, staff_id, rental_id, amount, payment_date) VALUES (1, 1, 1, 2.99, '2005-05-25 11:30:37'), (2, 2, NULL, 0.99, '2005-05-26 00:00:00');
ALTER TABLE store ADD CONSTRAINT fk_store_staff FOREIGN KEY (manager_staff_id) REFERENCES staff (staff_id) ON DELETE RESTRICT ON UPDATE CASCADE;
