-- The shape of the Employees sample database, with a handful of rows.
CREATE TABLE employees (
    emp_no int NOT NULL,
    birth_date date NOT NULL,
    first_name varchar(14) NOT NULL,
    last_name varchar(16) NOT NULL,
    gender enum('M', 'F') NOT NULL,
    hire_date date NOT NULL,
    PRIMARY KEY (emp_no)
) ENGINE = InnoDB;
CREATE TABLE departments (
    dept_no char(4) NOT NULL,
    dept_name varchar(40) NOT NULL,
    PRIMARY KEY (dept_no),
    UNIQUE KEY (dept_name)
) ENGINE = InnoDB;
CREATE TABLE dept_manager (
    emp_no int NOT NULL,
    dept_no char(4) NOT NULL,
    from_date date NOT NULL,
    to_date date NOT NULL,
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE,
    PRIMARY KEY (emp_no, dept_no)
) ENGINE = InnoDB;
CREATE TABLE dept_emp (
    emp_no int NOT NULL,
    dept_no char(4) NOT NULL,
    from_date date NOT NULL,
    to_date date NOT NULL,
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE,
    PRIMARY KEY (emp_no, dept_no)
) ENGINE = InnoDB;
CREATE TABLE titles (
    emp_no int NOT NULL,
    title varchar(50) NOT NULL,
    from_date date NOT NULL,
    to_date date,
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    PRIMARY KEY (emp_no, title, from_date)
) ENGINE = InnoDB;
CREATE TABLE salaries (
    emp_no int NOT NULL,
    salary int NOT NULL,
    from_date date NOT NULL,
    to_date date NOT NULL,
    FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE,
    PRIMARY KEY (emp_no, from_date)
) ENGINE = InnoDB;
INSERT INTO employees VALUES (10001, '1953-09-02', 'Georgi', 'Facello', 'M', '1986-06-26'), (10002, '1964-06-02', 'Bezalel', 'Simmel', 'F', '1985-11-21');
INSERT INTO departments VALUES ('d001', 'Marketing'), ('d002', 'Finance');
INSERT INTO dept_manager VALUES (10001, 'd001', '1985-01-01', '1991-10-01');
INSERT INTO dept_emp VALUES (10001, 'd001', '1986-06-26', '9999-01-01'), (10002, 'd002', '1996-08-03', '9999-01-01');
INSERT INTO titles VALUES (10001, 'Senior Engineer', '1986-06-26', '9999-01-01'), (10002, 'Staff', '1996-08-03', NULL);
INSERT INTO salaries VALUES (10001, 60117, '1986-06-26', '1987-06-26'), (10001, 62102, '1987-06-26', '1988-06-25'), (10002, 65828, '1996-08-03', '1997-08-03');
